"""The official Python SDK (a2a-sdk) as the client of `siding a2a serve`.

    pip install a2a-sdk
    siding a2a serve --addr 127.0.0.1:7434 --model script:tools/a2a/demo.toml
    SIDING_A2A_TOKEN=… python tools/a2a/client.py http://127.0.0.1:7434

It prints its observations, and exits with 0 if all of them are as expected. See docs/a2a.md.
"""

import asyncio
import os
import sys
import uuid

import httpx
from a2a.client import ClientConfig, create_client
from a2a.types import (
    CancelTaskRequest,
    GetTaskRequest,
    ListTasksRequest,
    Message,
    Part,
    Role,
    SendMessageRequest,
    SubscribeToTaskRequest,
    TaskState,
)


def message(text, context=None):
    return SendMessageRequest(
        message=Message(
            role=Role.ROLE_USER,
            message_id=str(uuid.uuid4()),
            parts=[Part(text=text)],
            context_id=context,
        )
    )


async def told(stream):
    """Returns the events of a stream by their names, and the last task id."""
    names, states, task, artifacts = [], [], None, []
    async for event in stream:
        kind = event.WhichOneof("payload")
        names.append(kind)
        if kind == "task":
            task = event.task
            states.append(TaskState.Name(event.task.status.state))
        elif kind == "status_update":
            states.append(TaskState.Name(event.status_update.status.state))
        elif kind == "artifact_update":
            artifacts += [part.text for part in event.artifact_update.artifact.parts]
    return names, states, task, artifacts


async def main(url):
    token = os.environ["SIDING_A2A_TOKEN"]
    http = httpx.AsyncClient(headers={"Authorization": f"Bearer {token}"}, timeout=60)
    client = await create_client(url, ClientConfig(httpx_client=http))

    names, states, task, artifacts = await told(client.send_message(message("say hello", "sdk")))
    print("streamed:", names, states, artifacts)
    assert names[0] == "task" and states[-1] == "TASK_STATE_COMPLETED", states
    assert task.context_id == "sdk" and artifacts, artifacts

    again = await client.get_task(GetTaskRequest(id=task.id))
    assert TaskState.Name(again.status.state) == "TASK_STATE_COMPLETED"
    assert again.artifacts[0].parts[0].text == artifacts[0]
    print("asked for:", again.id, again.artifacts[0].name)

    listed = await client.list_tasks(ListTasksRequest(context_id="sdk"))
    assert listed.tasks[0].id == task.id, listed
    print("listed:", listed.total_size)

    polling = await create_client(url, ClientConfig(httpx_client=http, streaming=False))
    _, states, _, _ = await told(polling.send_message(message("and now?", "sdk")))
    assert states == ["TASK_STATE_COMPLETED"], states
    print("waited for:", states)

    # Leaves the stream of a running task, subscribes again, and cancels the task.
    async for event in client.send_message(message("sleep")):
        sleeping = event.task.id
        break
    async def cancel():
        await asyncio.sleep(1)
        return await client.cancel_task(CancelTaskRequest(id=sleeping))
    canceling = asyncio.create_task(cancel())
    _, states, _, _ = await told(client.subscribe(SubscribeToTaskRequest(id=sleeping)))
    canceled = await canceling
    assert states[-1] == "TASK_STATE_CANCELED", states
    assert TaskState.Name(canceled.status.state) == "TASK_STATE_CANCELED"
    print("canceled:", states)

    try:
        await client.get_task(GetTaskRequest(id="a-000000000000"))
    except Exception as error:
        assert type(error).__name__ == "TaskNotFoundError", repr(error)
        print("missing:", type(error).__name__)
    else:
        raise AssertionError("a task that does not exist was found")
    print("all checks passed")


asyncio.run(main(sys.argv[1]))

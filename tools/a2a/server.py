"""An agent of the official Python SDK (a2a-sdk), for `siding a2a send`.

    pip install 'a2a-sdk[http-server]' uvicorn
    python tools/a2a/server.py 7435
    siding a2a send http://127.0.0.1:7435 'hello'        completed, an artifact in two pieces
    siding a2a send http://127.0.0.1:7435 'ask'          input-required; answer with --task
    siding a2a send http://127.0.0.1:7435 'long'         stopping it cancels the task here

See docs/a2a.md.
"""

import asyncio
import sys

import uvicorn
from a2a.server.agent_execution.agent_executor import AgentExecutor
from a2a.server.request_handlers import DefaultRequestHandler
from a2a.server.routes import create_agent_card_routes, create_jsonrpc_routes
from a2a.server.tasks.inmemory_task_store import InMemoryTaskStore
from a2a.server.tasks.task_updater import TaskUpdater
from a2a.types import (
    AgentCapabilities,
    AgentCard,
    AgentInterface,
    AgentSkill,
    Part,
    Task,
    TaskState,
    TaskStatus,
)
from starlette.applications import Starlette


class Agent(AgentExecutor):
    async def execute(self, context, event_queue):
        text = context.get_user_input()
        print("told:", text, flush=True)
        updater = TaskUpdater(event_queue, context.task_id, context.context_id)
        say = lambda words: updater.new_agent_message(parts=[Part(text=words)])
        if not context.current_task:
            await event_queue.enqueue_event(
                Task(
                    id=context.task_id,
                    context_id=context.context_id,
                    status=TaskStatus(state=TaskState.TASK_STATE_SUBMITTED),
                    history=[context.message],
                )
            )
        await updater.start_work(message=say("I begin."))
        if text == "ask":
            await updater.requires_input(message=say("which branch?"))
            return
        if text == "long":
            await asyncio.sleep(600)
        for index, piece in enumerate(["You said ", text + "\n"]):
            await updater.add_artifact(
                [Part(text=piece)], artifact_id="said", name="said",
                append=index > 0, last_chunk=index > 0,
            )
        await updater.complete()

    async def cancel(self, context, event_queue):
        print("canceled", flush=True)
        await TaskUpdater(event_queue, context.task_id, context.context_id).cancel()


def main(port):
    card = AgentCard(
        name="sample",
        description="Says what it was told.",
        version="1",
        capabilities=AgentCapabilities(streaming=True),
        default_input_modes=["text/plain"],
        default_output_modes=["text/plain"],
        skills=[AgentSkill(id="say", name="say", description="says", tags=["x"])],
        supported_interfaces=[
            AgentInterface(
                protocol_binding="JSONRPC",
                protocol_version="1.0",
                url=f"http://127.0.0.1:{port}/rpc",
            )
        ],
    )
    handler = DefaultRequestHandler(
        agent_executor=Agent(), task_store=InMemoryTaskStore(), agent_card=card
    )
    routes = create_agent_card_routes(agent_card=card)
    routes += create_jsonrpc_routes(request_handler=handler, rpc_url="/rpc")
    uvicorn.run(Starlette(routes=routes), host="127.0.0.1", port=port, log_level="warning")


main(int(sys.argv[1]))

"""A model API on loopback that answers from a script: Messages for Claude Code, Responses for Codex.

A script is a list of steps. Each request of a client's main loop consumes the next step, and the
last step repeats. A step is {"text": "...", "tools": [{"name": "Bash", "input": {...}}]}. In a tool's
input, "$LAST" stands for the id of the last siding task that the request mentions. Side requests,
which offer hardly any tools, are answered with "ok" and consume no step.
"""

import json
import re
import threading
import uuid
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

# A request with fewer tools is a side request.
MAIN_LOOP_TOOLS = 4
TASK_ID = re.compile(r"\b[a-z]-[0-9a-z]{12}\b")


class ModelApi:
    """A server with a script. `requests` holds the bodies of the main loop's requests."""

    def __init__(self, script):
        self.script = script
        self.requests = []
        self.lock = threading.Lock()
        api = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, *_args):
                pass

            def do_HEAD(self):
                self.send_response(200)
                self.send_header("content-length", "0")
                self.end_headers()

            def do_GET(self):
                send_json(self, {"data": [], "models": []})

            def do_POST(self):
                length = int(self.headers.get("content-length", 0))
                body = json.loads(self.rfile.read(length) or b"{}")
                if "count_tokens" in self.path:
                    send_json(self, {"input_tokens": 10})
                elif "/messages" in self.path:
                    send_message(self, body, api.next_step(body))
                elif "/responses" in self.path:
                    send_response(self, body, api.next_step(body))
                else:
                    send_json(self, {})

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.port = self.server.server_address[1]
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def next_step(self, body):
        """Returns the step for a request."""
        if len(body.get("tools") or []) < MAIN_LOOP_TOOLS:
            return {"text": "ok"}
        with self.lock:
            step = self.script[min(len(self.requests), len(self.script) - 1)]
            self.requests.append(body)
        ids = TASK_ID.findall(json.dumps(body))
        return json.loads(json.dumps(step).replace("$LAST", ids[-1] if ids else "none"))

    def transcript(self):
        """Returns the messages of the last request, as text."""
        with self.lock:
            if not self.requests:
                return ""
            body = self.requests[-1]
        sent = body.get("messages") or body.get("input") or []
        return json.dumps(sent, ensure_ascii=False).replace("\\n", "\n").replace('\\"', '"')

    def close(self):
        """Stops the server."""
        self.server.shutdown()
        self.server.server_close()


def send_json(handler, value):
    data = json.dumps(value).encode()
    handler.send_response(200)
    handler.send_header("content-type", "application/json")
    handler.send_header("content-length", str(len(data)))
    handler.end_headers()
    handler.wfile.write(data)


def send_events(handler, events):
    """Sends server-sent events, each a type and its data."""
    handler.send_response(200)
    handler.send_header("content-type", "text/event-stream")
    handler.send_header("transfer-encoding", "chunked")
    handler.end_headers()
    for kind, data in events:
        text = f"event: {kind}\ndata: {json.dumps({**data, 'type': kind})}\n\n".encode()
        handler.wfile.write(b"%x\r\n%s\r\n" % (len(text), text))
    handler.wfile.write(b"0\r\n\r\n")
    handler.wfile.flush()


def new_id(prefix):
    return prefix + uuid.uuid4().hex[:20]


def send_message(handler, body, step):
    """Answers in the form of the Messages API."""
    content = [{"type": "text", "text": step["text"]}] if "text" in step else []
    for tool in step.get("tools", []):
        use = {"id": new_id("toolu_"), "name": tool["name"], "input": tool["input"]}
        content.append({"type": "tool_use", **use})
    stop = "tool_use" if step.get("tools") else "end_turn"
    usage = {"input_tokens": 10, "output_tokens": 10}
    message = {"id": new_id("msg_"), "type": "message", "role": "assistant", "content": content,
               "model": body.get("model"), "stop_reason": stop, "stop_sequence": None,
               "usage": usage}
    if not body.get("stream"):
        return send_json(handler, message)
    events = [("message_start", {"message": {**message, "content": [], "stop_reason": None}})]
    for index, block in enumerate(content):
        if block["type"] == "text":
            start, delta = {"type": "text", "text": ""}, {"type": "text_delta", "text": block["text"]}
        else:
            start = {**block, "input": {}}
            delta = {"type": "input_json_delta", "partial_json": json.dumps(block["input"])}
        events.append(("content_block_start", {"index": index, "content_block": start}))
        events.append(("content_block_delta", {"index": index, "delta": delta}))
        events.append(("content_block_stop", {"index": index}))
    end = {"delta": {"stop_reason": stop, "stop_sequence": None}, "usage": {"output_tokens": 10}}
    events += [("message_delta", end), ("message_stop", {})]
    return send_events(handler, events)


def send_response(handler, _body, step):
    """Answers in the form of the Responses API, as a stream."""
    items = []
    if "text" in step:
        text = {"type": "output_text", "text": step["text"], "annotations": []}
        items.append({"type": "message", "role": "assistant", "id": new_id("msg_"),
                      "content": [text]})
    for tool in step.get("tools", []):
        call = {"name": tool["name"], "arguments": json.dumps(tool["input"])}
        items.append({"type": "function_call", "id": new_id("fc_"), "call_id": new_id("call_"),
                      **call})
    response = {"id": new_id("resp_"), "object": "response", "output": items}
    usage = {"input_tokens": 10, "input_tokens_details": None, "output_tokens": 10,
             "output_tokens_details": None, "total_tokens": 20}
    events = [("response.created", {"response": {**response, "output": []}})]
    for index, item in enumerate(items):
        events.append(("response.output_item.added", {"output_index": index, "item": item}))
        events.append(("response.output_item.done", {"output_index": index, "item": item}))
    events.append(("response.completed", {"response": {**response, "usage": usage}}))
    return send_events(handler, events)

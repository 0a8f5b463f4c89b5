"""The incident script behind the chat-completions protocol: a provider that costs nothing, in a thread of the test."""

from __future__ import annotations

import json
import threading
from collections.abc import Generator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from perdure.demo.incident_script import reply


class ChatEndpoint(ThreadingHTTPServer):
    """Answers `POST /chat/completions`; counts what it was asked."""

    def __init__(self) -> None:
        self.asked = 0
        super().__init__(("127.0.0.1", 0), _Handler)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"


class _Handler(BaseHTTPRequestHandler):
    server: ChatEndpoint

    def do_POST(self) -> None:
        request = json.loads(self.rfile.read(int(self.headers["content-length"])))
        self.server.asked += 1
        body = json.dumps(_completion(request)).encode()
        self.send_response(200)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:
        pass


@contextmanager
def chat_endpoint() -> Generator[ChatEndpoint]:
    """Serve while the block lasts."""
    endpoint = ChatEndpoint()
    thread = threading.Thread(target=endpoint.serve_forever, name="chat-endpoint")
    thread.start()
    try:
        yield endpoint
    finally:
        endpoint.shutdown()
        thread.join()
        endpoint.server_close()


def _completion(request: dict[str, Any]) -> dict[str, Any]:
    said = reply(
        {
            "messages": [_message(message) for message in request["messages"] if message["role"] != "system"],
            "tools": [tool["function"] for tool in request.get("tools", ())],
        }
    )
    message: dict[str, Any] = {"role": "assistant", "content": said["text"]}
    if said["tool_calls"]:
        message["tool_calls"] = [
            {"id": one["id"], "type": "function", "function": {"name": one["name"], "arguments": one["arguments"]}}
            for one in said["tool_calls"]
        ]
    return {
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "created": 1_700_000_000,
        "model": request["model"],
        "choices": [{"index": 0, "finish_reason": "tool_calls" if said["tool_calls"] else "stop", "message": message}],
        "usage": {"prompt_tokens": 10, "completion_tokens": 10, "total_tokens": 20},
    }


def _message(message: dict[str, Any]) -> dict[str, Any]:
    calls = [
        {"id": one["id"], "name": one["function"]["name"], "arguments": one["function"]["arguments"]}
        for one in message.get("tool_calls") or ()
    ]
    text = message.get("content") or ""
    if isinstance(text, list):
        text = "".join(part.get("text", "") for part in text)
    return {"role": message["role"], "text": text, "tool_calls": calls, "call_id": message.get("tool_call_id", "")}

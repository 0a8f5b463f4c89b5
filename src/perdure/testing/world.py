"""The outside world, as a process of its own that counts what was done to it: `python -m perdure.testing.world`.

It shares no code with the runtime. Loopback only. Every call is in its log, fsynced, before the caller learns of it,
and a call counts only when the whole request arrived.

    POST /act/NAME   an effect. Headers Idempotency-Key, X-Company, X-Execution, X-Step, X-Attempt (percent-encoded).
    POST /model      a model request (the fields of `ModelRequest` as JSON), answered by the script with a `ModelReply`.
                     Logged as `model_request` on arrival, and as `model_reply` before the reply leaves. A script
                     that raises is answered 500, or the `status` of what it raised, and logged with `"effect": false`.
                     With `begun_at_ms`, when sending began, one that a stopped process sends late is known as such.
    POST /faults     {"spec": ..., "seed": ...} replaces the plan of faults and starts its counting anew.
    GET  /log        the log: one JSON object a line.

A plan is `NAME=FAULT[@WHEN]` joined by `;`. NAME is an effect's, `model`, or `*`. WHEN is the n-th call of that name
(`@3`) or a probability (`@0.25`); without it every call. The first rule that fits decides. FAULT is one of

    error_before   500, and nothing was done (logged with `"effect": false`)
    error_after    500, and it was done
    reply_lost     done; the connection closes without a reply
    reset          done; the connection is reset
    hang           done; no reply until the caller gives up, `HANG_SECONDS` at most
    slow:SECONDS   done; the reply comes later
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import random
import socket
import struct
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import cast
from urllib.parse import unquote

Body = dict[str, object]
Script = Callable[[Body], Body]

HANG_SECONDS = 60.0
MAX_BODY_BYTES = 32 * 1024 * 1024
MAX_RULES = 64
FAULTS = frozenset({"error_before", "error_after", "reply_lost", "reset", "hang", "slow"})
RESERVED = frozenset({"model_request", "model_reply", "model"})
PARENT_POLL_SECONDS = 0.5


class Log:
    """The count of what was done. One line a call; on the disk before `append` returns."""

    def __init__(self, path: Path) -> None:
        self._file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o600)
        self._lock = threading.Lock()
        text = self.read()
        os.ftruncate(self._file, text.rfind(b"\n") + 1)  # a line torn by a kill was never acknowledged
        self._n = text.count(b"\n")

    def append(self, name: str, origin: Body, body: Body, *, effect: bool = True, fault: str | None = None) -> int:
        """Write one call down and return its number, from 1."""
        with self._lock:
            n = self._n + 1
            received_at_ms = time.time_ns() // 1_000_000
            line = {"n": n, "received_at_ms": received_at_ms, "name": name, **origin, "body": body}
            line |= {"effect": effect, "fault": fault}
            os.write(self._file, json.dumps(line, separators=(",", ":")).encode() + b"\n")
            os.fsync(self._file)
            self._n = n
        return n

    def read(self) -> bytes:
        """Return the whole log."""
        return os.pread(self._file, os.fstat(self._file).st_size, 0)


@dataclass(frozen=True, slots=True)
class Rule:
    """One fault of the plan. `nth` is 0 when every call, or one in `chance`, is meant."""

    name: str
    fault: str
    seconds: float
    nth: int
    chance: float


def parse_rule(text: str) -> Rule:
    """Read `NAME=FAULT[@WHEN]`. Raises `ValueError` that quotes the part it could not read."""
    name, equals, rest = text.partition("=")
    action, _, when = rest.partition("@")
    fault, _, argument = action.partition(":")
    if not (name and equals) or fault not in FAULTS:
        raise ValueError(f"fault {text!r}: expected NAME=FAULT[@WHEN] with FAULT one of {', '.join(sorted(FAULTS))}")
    seconds = min(float(argument or 0), HANG_SECONDS)
    is_chance = "." in when
    return Rule(name, fault, seconds, 0 if is_chance else int(when or 0), float(when) if is_chance else 1.0)


class Faults:
    """The plan of faults and how often each name was called under it."""

    def __init__(self, spec: str = "", seed: int = 0) -> None:
        self._lock = threading.Lock()
        self.replace(spec, seed)

    def replace(self, spec: str, seed: int) -> None:
        """Put another plan in place. Raises `ValueError` and keeps the old one when it cannot be read."""
        rules = [parse_rule(part) for part in spec.split(";") if part]
        if len(rules) > MAX_RULES:
            raise ValueError(f"{len(rules)} faults: at most {MAX_RULES}")
        with self._lock:
            self._rules, self._calls = rules, dict[str, int]()
            self._random = random.Random(seed)  # noqa: S311 - repeatable on purpose

    def choose(self, name: str) -> Rule | None:
        """Count a call of `name` and return the fault it meets, if any."""
        with self._lock:
            count = self._calls[name] = self._calls.get(name, 0) + 1
            for rule in self._rules:
                fits = rule.name in (name, "*") and rule.nth in (0, count)
                if fits and (rule.chance >= 1 or self._random.random() < rule.chance):
                    return rule
        return None


class WorldServer(ThreadingHTTPServer):
    """The listening socket and what its handlers share."""

    daemon_threads = True  # the process is ended by a kill, and everything that counts is on the disk
    request_queue_size = 128

    def __init__(self, log: Log, faults: Faults, script: Script | None, model_delay_ms: int) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.log, self.faults, self.script = log, faults, script
        self.model_delay_s = min(model_delay_ms / 1000, HANG_SECONDS)


class Refusal(Exception):
    """The caller's mistake: `status` and a sentence."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


class Handler(BaseHTTPRequestHandler):
    """One connection."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    timeout = HANG_SECONDS
    server: WorldServer  # pyright: ignore[reportIncompatibleVariableOverride] - the only server that makes handlers

    def do_GET(self) -> None:
        """Answer `/log`."""
        if self.path == "/log":
            self._send(200, self.server.log.read(), "application/x-ndjson")
        else:
            self._send_json(404, {"error": f"no {self.path}: GET /log, POST /act/NAME, /model, /faults"})

    def do_POST(self) -> None:
        """Do what is asked, or say why not."""
        try:
            body = self._whole_body()
            if body is None:
                self.close_connection = True
                return
            match self.path.strip("/").split("/"):
                case ["act", name] if name not in RESERVED:
                    self._act(unquote(name), body)
                case ["model"]:
                    self._model(body)
                case ["faults"]:
                    self._faults(body)
                case _:
                    raise Refusal(404, f"no {self.path}: GET /log, POST /act/NAME, /model, /faults")
        except Refusal as refusal:
            self._send_json(refusal.status, {"error": str(refusal)})

    def _act(self, name: str, body: Body) -> None:
        origin = self._origin(key=body.get("key"))
        rule = self.server.faults.choose(name)
        if rule and rule.fault == "error_before":
            self.server.log.append(name, origin, body, effect=False, fault=rule.fault)
            raise Refusal(500, "error_before: nothing was done")
        n = self.server.log.append(name, origin, body, fault=rule and rule.fault)
        self._answer(rule, {"n": n, "name": name})

    def _model(self, body: Body) -> None:
        execution, _, step = str(body.get("call", "")).partition("/")
        origin = self._origin(execution=execution or None, step=step or None)
        rule = self.server.faults.choose("model")
        effect = rule is None or rule.fault != "error_before"
        self.server.log.append("model_request", origin, body, effect=effect, fault=rule and rule.fault)
        if rule and not effect:
            raise Refusal(500, "error_before: nothing was done")
        if self.server.script is None:
            raise Refusal(404, "this world has no model: start it with --script MODULE:FUNCTION")
        time.sleep(self.server.model_delay_s)
        try:
            reply = self.server.script(body)
        except Exception as error:  # whatever the script raises goes to the one who asked, as its `status` says
            self.server.log.append("model_reply", origin, {"error": repr(error)}, effect=False)
            raise Refusal(int(getattr(error, "status", 500)), f"script: {error!r}") from error
        self.server.log.append("model_reply", origin, reply)
        self._answer(rule, reply)

    def _faults(self, body: Body) -> None:
        try:
            self.server.faults.replace(str(body.get("spec", "")), int(str(body.get("seed", 0))))
        except ValueError as error:
            raise Refusal(400, str(error)) from error
        self._send_json(200, {})

    def _whole_body(self) -> Body | None:
        """Return the request's JSON object, or None when the caller died in the middle of it."""
        length = self.headers.get("Content-Length", "")
        if not length.isdigit() or int(length) > MAX_BODY_BYTES:
            self.close_connection = True
            raise Refusal(411, f"a Content-Length of at most {MAX_BODY_BYTES} is needed, found {length!r}")
        try:
            raw = self.rfile.read(int(length))
        except OSError:
            return None
        if len(raw) < int(length):
            return None
        try:
            body: object = json.loads(raw or b"{}")
        except ValueError as error:
            raise Refusal(400, f"not JSON: {error}") from error
        if not isinstance(body, dict):
            raise Refusal(400, "a JSON object is needed")
        return cast("Body", body)

    def _origin(self, *, key: object = None, execution: str | None = None, step: str | None = None) -> Body:
        """Say who called, by the headers first."""
        attempt = self._header("X-Attempt") or ""
        return {
            "company": self._header("X-Company"),
            "execution": self._header("X-Execution") or execution,
            "step": self._header("X-Step") or step,
            "key": self._header("Idempotency-Key") or key,
            "attempt": int(attempt) if attempt.isdigit() else None,
        }

    def _header(self, name: str) -> str | None:
        value = self.headers.get(name)
        return None if value is None else unquote(value)

    def _answer(self, rule: Rule | None, reply: Body) -> None:
        """Reply to a call that counts, unless the plan has something worse in mind."""
        match rule and rule.fault:
            case "error_after":
                raise Refusal(500, "error_after: it was done")
            case "reply_lost":
                self.close_connection = True
            case "reset":
                self.close_connection = True
                self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                self.connection.close()  # with nothing to linger for, the kernel sends a reset in place of a FIN
            case "hang":
                self.close_connection = True
                self._hang()
            case _:
                time.sleep(rule.seconds if rule else 0)
                self._send_json(200, reply)

    def _hang(self) -> None:
        try:
            self.connection.recv(1)  # returns when the caller gives up; raises after `timeout`
        except OSError:
            return

    def _send_json(self, status: int, reply: Body) -> None:
        self._send(status, json.dumps(reply).encode(), "application/json")

    def _send(self, status: int, payload: bytes, kind: str) -> None:
        try:
            self.send_response(status)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(payload)))
            self.end_headers()
            self.wfile.write(payload)
        except OSError:  # the caller is gone; what it did still counts
            self.close_connection = True

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing: the log is the record."""


def load_script(name: str | None) -> Script | None:
    """Return the function `module:function`."""
    if not name:
        return None
    module, _, function = name.partition(":")
    return cast("Script", getattr(importlib.import_module(module), function))


def _end_with(parent: int) -> None:
    """End this process when `parent` is gone, so that a killed test leaves nothing behind."""
    while os.getppid() == parent:
        time.sleep(PARENT_POLL_SECONDS)
    os._exit(0)


def main(argv: list[str] | None = None) -> None:
    """Serve until killed. The port file appears, whole, once connections are accepted."""
    parser = argparse.ArgumentParser(prog="python -m perdure.testing.world", description="Count what is done to it.")
    parser.add_argument("--log", type=Path, required=True, help="file to append the calls to")
    parser.add_argument("--port-file", type=Path, required=True, help="file to write the port to")
    parser.add_argument("--faults", default="", help="plan of faults: NAME=FAULT[@WHEN];...")
    parser.add_argument("--seed", type=int, default=0, help="seed of the faults that have a probability")
    parser.add_argument("--script", help="MODULE:FUNCTION that answers model requests")
    parser.add_argument("--model-delay-ms", type=int, default=0, help="time between a model request and its answer")
    parser.add_argument("--parent", type=int, help="process id to end with")
    options = parser.parse_args(argv)
    faults = Faults(options.faults, options.seed)
    server = WorldServer(Log(options.log), faults, load_script(options.script), options.model_delay_ms)
    if options.parent:
        threading.Thread(target=_end_with, args=(options.parent,), name="parent-watch", daemon=True).start()
    whole = options.port_file.with_suffix(".tmp")
    whole.write_text(str(server.server_port))
    whole.replace(options.port_file)
    server.serve_forever()


if __name__ == "__main__":
    sys.exit(main())

"""Every address of the HTTP API, once: for the server's table and for the client's requests."""

from __future__ import annotations

from urllib.parse import quote

from perdure.core.ids import check_named

DEFAULT_PORT = 6767

HEALTH = "/health"
"""Is a server there? Open. With the header `CHALLENGE` the reply proves that it knows its state file's nonce."""
READY = "/ready"
"""Does it take work? Open."""
CHALLENGE = "perdure-challenge"

INFO = "/v1/info"
OPENAPI = "/v1/openapi.json"
EXECUTIONS = "/v1/executions"
COUNTS = "/v1/executions/counts"
SEARCH = "/v1/executions/search"
RECENT = "/v1/executions/recent"
EXECUTION = "/v1/executions/{execution}"
EVENTS = "/v1/executions/{execution}/events"
MESSAGES = "/v1/executions/{execution}/messages"
SIGNALS = "/v1/executions/{execution}/signals"
PAUSE = "/v1/executions/{execution}/pause"
RESUME = "/v1/executions/{execution}/resume"
STOP = "/v1/executions/{execution}/stop"
CANCEL = "/v1/executions/{execution}/cancel"
TASKS = "/v1/executions/{execution}/tasks"
RETRY = "/v1/executions/{execution}/tasks/retry"
LOG = "/v1/executions/{execution}/log"
FORK = "/v1/executions/{execution}/fork"
MAP = "/v1/executions/{execution}/map"
PROOF = "/v1/executions/{execution}/proof"
DOCTOR = "/v1/executions/{execution}/doctor"
RULING = "/v1/executions/{execution}/effects/ruling"
APPROVALS = "/v1/approvals"
DECISION = "/v1/approvals/{approval}/decision"
EFFECTS = "/v1/effects"
SCHEDULES = "/v1/schedules"
SCHEDULE = "/v1/schedules/{schedule}"
SCHEDULE_PAUSE = "/v1/schedules/{schedule}/pause"
SCHEDULE_RESUME = "/v1/schedules/{schedule}/resume"
SCHEDULE_TICKS = "/v1/schedules/{schedule}/ticks"
SCHEDULE_TRIGGER = "/v1/schedules/{schedule}/trigger"
DEAD = "/v1/tasks/dead"
QUEUES = "/v1/queues"
QUEUE = "/v1/queues/{queue}"
QUEUE_PAUSE = "/v1/queues/{queue}/pause"
QUEUE_RESUME = "/v1/queues/{queue}/resume"
ROOMS = "/v1/rooms"
ROOM = "/v1/rooms/{room}"
ROOM_INVITE = "/v1/rooms/{room}/invite"
ROOM_JOIN = "/v1/rooms/{room}/join"
ROOM_LEAVE = "/v1/rooms/{room}/leave"
ROOM_AGENTS = "/v1/rooms/{room}/agents"
ROOM_AGENT = "/v1/rooms/{room}/agents/{agent}"
ROOM_MESSAGES = "/v1/rooms/{room}/messages"
ROOM_TASKS = "/v1/rooms/{room}/tasks"
ROOM_TASK = "/v1/rooms/{room}/tasks/{task}"
ROOM_MEMORY = "/v1/rooms/{room}/memory"
ROOM_SEARCH = "/v1/rooms/{room}/search"
ROOM_WAKES = "/v1/rooms/{room}/wakes"
ROOM_STOP = "/v1/rooms/{room}/stop"
ROOM_START = "/v1/rooms/{room}/start"
ROOM_STOPS = "/v1/rooms/{room}/stops"
ROOM_BUDGETS = "/v1/room-budgets"
ROOM_RIGHTS = "/v1/rooms/{room}/rights"
ROOM_LEDGER = "/v1/rooms/{room}/ledger"
ROOM_CHUNKS = "/v1/rooms/{room}/chunks"
ROOM_FILES = "/v1/rooms/{room}/files"
ROOM_FILE = "/v1/rooms/{room}/files/{file}"
ROOM_FILE_TEXT = "/v1/rooms/{room}/files/{file}/text"
ROOM_FILE_CHUNK = "/v1/rooms/{room}/files/{file}/chunks/{number}"
COMPANIES = "/v1/companies"
COMPANY_STOP = "/v1/companies/stop"
COMPANY_START = "/v1/companies/start"
COMPANY_KEYS = "/v1/companies/{company}/keys"
COMPANY_KEY = "/v1/companies/{company}/keys/{key}"
SECRETS = "/v1/secrets"
SECRETS_ROTATE = "/v1/secrets/rotate"
SECRET = "/v1/secrets/{secret}"
TOKEN_COMPLETE = "/v1/tokens/{token}/complete"
TOKEN_FAIL = "/v1/tokens/{token}/fail"
AGENTS = "/v1/agents"
VERSIONS = "/v1/agents/versions"
WORKERS = "/v1/workers"
WORKERS_HELD = "/v1/workers/held"
BLOB = "/v1/blobs/{blob}"
BLOB_CHUNK = "/v1/blobs/{blob}/{number}"
VALUES = "/v1/executions/{execution}/values"
VALUE = "/v1/executions/{execution}/values/{blob}"
FEED = "/v1/feed"
SESSION = "/v1/session"
"""A browser's: it begins with a link, and needs no key."""
LINKS = "/v1/session/links"
KEYS = "/v1/keys"

MCP = "/mcp"
"""Rooms for programs that speak MCP."""

LEASE = "/v1/worker/lease"
BEGIN = "/v1/worker/begin"
REPORT = "/v1/worker/report"
BEAT = "/v1/worker/beat"
HAND_BACK = "/v1/worker/hand-back"
ALIVE = "/v1/worker/alive"
CLAIM = "/v1/worker/claim"
RENEW = "/v1/worker/renew"
RELEASE = "/v1/worker/release"
JOURNAL = "/v1/worker/journal"

WORKER = frozenset({LEASE, BEGIN, REPORT, BEAT, HAND_BACK, ALIVE, CLAIM, RENEW, RELEASE, JOURNAL})
"""Those of the worker API."""

OPEN = frozenset({HEALTH, READY})
"""The routes that need no key. Beside them only a token's address, whose secret is the right to it."""

ANY = "any"
"""What a `state` filter says to mean all of them."""

MAX_BODY_BYTES = 9 * 1024 * 1024
"""Largest request: one value of the largest size, and its envelope."""
BLOBS = "/v1/blobs/"
"""What the addresses of large values begin with, by which they are sent."""
OCTETS = "application/octet-stream"
"""What their pieces are."""
MAX_TOKEN_BYTES = 1024 * 1024
"""Largest request of somebody who has nothing but a token."""


def fill(template: str, **parts: str) -> str:
    """Return an address with its parts in place. A part can hold any text and stays one segment.

    Raises InvalidInput for a part that is none: it would reach the server as a name that nobody gave.
    """
    check_named(**parts)
    return template.format(**{name: quote(part, safe="") for name, part in parts.items()})

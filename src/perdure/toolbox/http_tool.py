"""`http_tool`: declare one HTTP endpoint as a tool. A value; the server makes the requests, no worker is needed.

Checked at once, as `@tool` is. What a request does is in `toolbox/http_call.py`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Unpack, cast
from urllib.parse import urlsplit

from perdure.agent.patterns import SlowPattern, refuse_slow_patterns
from perdure.agent.server_tools import NEARLY, PLACEHOLDER, REFERENCE, HttpPart
from perdure.agent.spec import ServerTool
from perdure.agent.tool import check_name
from perdure.agent.tool_rules import bad_tool
from perdure.core.codec import Json
from perdure.core.delivery import Delivery
from perdure.errors import InvalidInput
from perdure.toolbox.server_options import ServerOptions, server_entry, with_delivery

READING = ("GET", "HEAD")
METHODS = (*READING, "POST", "PUT", "PATCH", "DELETE")
OURS = frozenset({"host", "content-length", "transfer-encoding", "connection", "idempotency-key", "accept-encoding"})
"""Headers that a declaration cannot set."""
_HEADER = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_ANYTHING: dict[str, Json] = {"type": "object", "properties": {}, "additionalProperties": False}


def http_tool(
    name: str,
    description: str,
    url: str,
    method: str = "GET",
    headers: Mapping[str, str] | None = None,
    input_schema: Mapping[str, Any] | None = None,
    *,
    simulate: Json = None,
    **options: Unpack[ServerOptions],
) -> ServerTool:
    """Declare an HTTP endpoint as a tool. The server calls it; put what this returns into an agent's `tools`.

    `input_schema` is the JSON schema of the arguments, an object. Those named in the address as `{name}` go there; the
    others into the query of a GET, HEAD or DELETE and into the JSON body of a POST, PUT or PATCH. In the values of
    `headers`, `${secret:NAME}` is one of the company's secrets (`perdure secrets set NAME`) and `${env:NAME}` a
    variable of the server's environment that its operator allows (`--tool-env NAME`): the value is looked up for each
    request, and neither stored nor shown. The result is the JSON or text of the answer.

    `delivery` is `repeatable` for GET and HEAD and else `at_least_once` if it is not given; every attempt carries the
    same `Idempotency-Key`. An answer of 408, 425, 429 or 5xx, and none in time, is tried again, after its `Retry-After`
    if it has one; any other 4xx has failed for good. Under `at_most_once` a 4xx, or no connection, counts as its word
    that nothing happened; anything else but a success is uncertain. `timeout_seconds` is 30 if it is not given.

    `simulate`: what a fork that may not act is given in place of an answer; without it, such a call pauses the fork.

    The server connects to public addresses only, unless its operator allows others (`--allow-private-http`), and
    follows at most three redirects. Options as for `@tool`, without those about a function.
    Raises `InvalidInput` (`bad_tool`, `bad_schema`).
    """
    check_name(name)
    method = method.upper()
    if method not in METHODS:
        raise bad_tool(name, f"has method={method!r}; expected one of {', '.join(METHODS)}")
    schema = check_schema(name, _ANYTHING if input_schema is None else input_schema)
    check_url(name, url, schema)
    entry = server_entry(name, description, schema, with_delivery(options, method in READING))
    part = HttpPart(method, url, check_headers(name, headers or {}), simulated=simulate)
    if simulate is None:
        return ServerTool(replace(entry, http=part))
    if entry.delivery is Delivery.REPEATABLE:
        raise bad_tool(name, "has simulate with delivery='repeatable', which changes nothing: forks may call it")
    return ServerTool(replace(entry, rules=replace(entry.rules, simulate=True), http=part))


def check_schema(name: str, schema: object) -> dict[str, Json]:
    """Return a JSON schema of arguments. Raises `InvalidInput` (`bad_schema`)."""
    from jsonschema import Draft202012Validator  # noqa: PLC0415 - it is slow to import
    from jsonschema.exceptions import SchemaError  # noqa: PLC0415 - as above

    if not isinstance(schema, Mapping) or schema.get("type") != "object":  # pyright: ignore[reportUnknownMemberType] - looked at below
        raise InvalidInput(
            f"tool {name}: input_schema should be the JSON schema of an object, as {{'type': 'object', 'properties': "
            f"...}}, found {schema!r:.80}.",
            code="bad_schema",
        )
    found = dict(cast("Mapping[str, Json]", schema))
    try:
        Draft202012Validator.check_schema(found)
        refuse_slow_patterns(found)
    except SchemaError as error:
        raise InvalidInput(f"tool {name}: input_schema is none: {error.message}.", code="bad_schema") from None
    except SlowPattern as error:
        raise InvalidInput(f"tool {name}: input_schema: {error}.", code="bad_schema") from None
    return found


def check_url(name: str, url: str, schema: Mapping[str, Any]) -> None:
    """See that an address is one, and that the schema has what it names. Raises `InvalidInput` (`bad_tool`)."""
    try:
        parts = urlsplit(url)
        host, _ = parts.hostname, parts.port
    except ValueError:
        raise bad_tool(name, f"has url={url!r}, which is no address") from None
    if parts.scheme not in ("http", "https") or not host or "{" in parts.netloc:
        raise bad_tool(name, f"has url={url!r}; expected http:// or https:// and a host that no argument changes")
    if parts.username is not None or parts.password is not None:
        raise bad_tool(name, "has a user or password in its url; put it into headers, as `${secret:NAME}`")
    if parts.fragment:
        raise bad_tool(name, f"has url={url!r} with a fragment, which no server is sent")
    known = schema.get("properties", {})
    if missing := [found for found in PLACEHOLDER.findall(url) if found not in known]:
        raise bad_tool(name, f"names {{{missing[0]}}} in its url, and input_schema has no property of that name")


def check_headers(name: str, headers: Mapping[str, str]) -> dict[str, str]:
    """Return headers that can be sent. Raises `InvalidInput` (`bad_tool`)."""
    for key, value in headers.items():
        if not _HEADER.fullmatch(key) or key.lower() in OURS:
            raise bad_tool(name, f"has the header {key!r}, which cannot be set here")
        if not value.isprintable() or not value.isascii():
            raise bad_tool(name, f"has a value of the header {key!r} that is not printable ASCII")
        for written in NEARLY.findall(value):
            if not REFERENCE.fullmatch(written):
                raise bad_tool(
                    name,
                    f"has {written!r:.80} in the header {key!r}; expected ${{secret:NAME}} or ${{env:NAME}} with a "
                    "name of letters, digits and `_`",
                )
    return dict(headers)

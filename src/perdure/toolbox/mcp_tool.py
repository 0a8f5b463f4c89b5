"""`mcp_tool`: declare an MCP server whose tools an agent may call. A value; the server asks it what it has.

One server, by streamable HTTP. Programs on standard input and output are never started by a server.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Unpack

from perdure.agent.server_tools import PLACEHOLDER, McpPart
from perdure.agent.spec import ServerTool
from perdure.agent.tool import check_name
from perdure.agent.tool_rules import bad_tool
from perdure.core.delivery import Delivery
from perdure.toolbox.http_tool import check_headers, check_url
from perdure.toolbox.server_options import ServerOptions, server_entry


def mcp_tool(
    url: str,
    name: str = "mcp",
    headers: Mapping[str, str] | None = None,
    tool_names: Sequence[str] | None = None,
    **options: Unpack[ServerOptions],
) -> ServerTool:
    """Give an agent the tools of an MCP server, or those of `tool_names`. The server calls them; put this into `tools`.

    When an execution begins, the server's tools are listed, and the list is kept with it: what the MCP server changes
    later changes nothing for it. Models see each as `name_tool`. `headers` as in `http_tool`, and the same guards hold;
    each call carries its `Idempotency-Key`. The server that runs agents needs the extra `perdure[mcp]`.

    Without `delivery`, each tool is as its annotations say: `readOnlyHint` makes it `repeatable`, `idempotentHint`
    `at_least_once`, anything else, and nothing at all, `at_most_once`. They are the MCP server's word: choose one mode
    for all if you do not trust it. Under `at_most_once` a call is uncertain once it was sent and no result came back,
    also when its result is an error; what failed before that did not happen. Other options as for `http_tool`.
    Raises `InvalidInput` (`bad_tool`).
    """
    check_name(name)
    check_url(name, url, {})
    if PLACEHOLDER.search(url):
        raise bad_tool(name, f"has url={url!r}: an MCP server has one address, without arguments")
    given: ServerOptions = {"delivery": Delivery.AT_LEAST_ONCE, **options}
    entry = server_entry(name, "", {"type": "object"}, given)
    chosen = None if tool_names is None else tuple(tool_names)
    part = McpPart(url, check_headers(name, headers or {}), chosen, delivery_given="delivery" in options)
    return ServerTool(replace(entry, mcp=part))

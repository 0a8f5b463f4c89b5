"""What one company may ask of a node: an object for each port that the HTTP edge and programs in the process know."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from perdure.server.changes import Changes
from perdure.server.direct import DirectApi
from perdure.server.direct_a2a import DirectA2aTasks
from perdure.server.functions import DirectFunctionSource
from perdure.server.tasks import DirectTaskSource

if TYPE_CHECKING:
    from perdure.server.node import Node


@dataclass(frozen=True, slots=True)
class CompanyPorts:
    """They last as long as the node: who waits at them hears of what others do there."""

    api: DirectApi
    tasks: DirectTaskSource
    functions: DirectFunctionSource
    changes: Changes
    a2a: DirectA2aTasks


def ports_of(node: Node, company: str) -> CompanyPorts:
    """Make the ports of one company."""
    return CompanyPorts(
        api=DirectApi(node, company),
        tasks=DirectTaskSource(node, company),
        functions=DirectFunctionSource(node, company),
        changes=Changes(node.bridge, company, node.parts.clock),
        a2a=DirectA2aTasks(node, company),
    )

"""The SDK's dispatcher of JSON-RPC over our handler: what a request of the protocol is read by and answered.

Of 1.0, and through the SDK's adapter of 0.3.
"""

from __future__ import annotations

from a2a.server.context import ServerCallContext
from a2a.server.routes.common import DefaultServerCallContextBuilder
from a2a.server.routes.jsonrpc_dispatcher import JsonRpcDispatcher
from starlette.requests import Request

from perdure.doors.a2a_handler import Handler
from perdure.doors.a2a_seat import SEAT


def make_dispatcher() -> JsonRpcDispatcher:
    """Return one for all requests: who asks, and for which agent, stands in a request's scope."""
    return JsonRpcDispatcher(Handler(), _Contexts(), enable_v0_3_compat=True)


class _Contexts(DefaultServerCallContextBuilder):
    """Puts who asks into what the SDK calls the context of a request."""

    def build(self, request: Request) -> ServerCallContext:
        context = super().build(request)
        context.state[SEAT] = request.scope[SEAT]
        return context

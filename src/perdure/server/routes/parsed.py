"""What the routes of the control API share: a request whose body was read and judged before, and who asks."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from functools import partial
from typing import Annotated, Any

from fastapi import Depends, Query
from fastapi.routing import APIRoute
from starlette.requests import Request
from starlette.responses import Response

from perdure.server.call import CALL, Call, call_of
from perdure.wire import codec

Caller = Annotated[Call, Depends(call_of)]
After = Annotated[int, Query(ge=0, le=codec.MAX_INT, description="Only what has a higher seq")]
Limit = Annotated[int, Query(ge=1, le=1000)]
moment = partial(Query, ge=0, le=codec.MAX_INT)
Moment = Annotated[int | None, moment(description="Milliseconds since 1970, UTC")]


class _ParsedRequest(Request):
    """A request whose body was read and judged before."""

    async def body(self) -> bytes:
        return self.scope[CALL].raw

    async def json(self) -> Any:
        return self.scope[CALL].body


class ParsedRoute(APIRoute):
    """A route that does not read its body again."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        inner = super().get_route_handler()

        async def handle(request: Request) -> Response:
            return await inner(_ParsedRequest(request.scope, request.receive))

        return handle


def reply(value: Any, status: int = 200) -> Response:
    """Return a shape as JSON."""
    return Response(codec.dump(value), status, media_type="application/json")

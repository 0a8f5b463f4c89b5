"""What a runtime sends to executions whose ids it need not know: the ends of tokens' waits."""

from __future__ import annotations

from perdure.client.handle import Connection
from perdure.client.large import sent_whole
from perdure.core.codec import Json
from perdure.core.tokens import token_of
from perdure.wire import routes
from perdure.wire.api import Api

MOST_INLINE = routes.MAX_TOKEN_BYTES // 2
"""Bytes of a value that a request about a token has room for, whoever it is said by. It is as small as a stranger's."""


class Outside:
    """The verbs about tokens, for a runtime to have."""

    async def complete_token_async(self: Connection, token: str, value: Json = None, *, by: str = "") -> None:
        """End a token's wait with a value. `token` is its secret, its callback address, or its id.

        The same answer again changes nothing. Raises `NotFound` (`no_such_token`), `Conflict` (`token_used`,
        `token_expired`, `ended`); `InvalidInput` (`blob_missing`) for a large value where the token is another
        company's.
        """
        await self.join(_completed(self.api, token_of(token), value, by))

    def complete_token(self: Connection, token: str, value: Json = None, *, by: str = "") -> None:
        self.wait(_completed(self.api, token_of(token), value, by))

    async def fail_token_async(self: Connection, token: str, error: str, *, by: str = "") -> None:
        """End a token's wait with an error, which the code that waits for it meets. Otherwise as `complete_token`."""
        await self.join(self.api.fail_token(token_of(token), error, by=by))

    def fail_token(self: Connection, token: str, error: str, *, by: str = "") -> None:
        self.wait(self.api.fail_token(token_of(token), error, by=by))


async def _completed(api: Api, token: str, value: Json, by: str) -> None:
    async def send(given: Json) -> None:
        await api.complete_token(token, given, by=by)

    await sent_whole(api, value, "the token's value", send, MOST_INLINE)

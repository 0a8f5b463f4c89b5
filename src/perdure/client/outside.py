"""What a runtime sends to executions whose ids it need not know: the ends of tokens' waits."""

from __future__ import annotations

from perdure.client.handle import Connection
from perdure.core.codec import Json
from perdure.core.tokens import token_of


class Outside:
    """The verbs about tokens, for a runtime to have."""

    async def complete_token_async(self: Connection, token: str, value: Json = None, *, by: str = "") -> None:
        """End a token's wait with a value. `token` is its secret, its callback address, or its id.

        The same answer again changes nothing. Raises `NotFound` (`no_such_token`), `Conflict` (`token_used`,
        `token_expired`, `ended`).
        """
        await self.join(self.api.complete_token(token_of(token), value, by=by))

    def complete_token(self: Connection, token: str, value: Json = None, *, by: str = "") -> None:
        self.wait(self.api.complete_token(token_of(token), value, by=by))

    async def fail_token_async(self: Connection, token: str, error: str, *, by: str = "") -> None:
        """End a token's wait with an error, which the code that waits for it meets. Otherwise as `complete_token`."""
        await self.join(self.api.fail_token(token_of(token), error, by=by))

    def fail_token(self: Connection, token: str, error: str, *, by: str = "") -> None:
        self.wait(self.api.fail_token(token_of(token), error, by=by))

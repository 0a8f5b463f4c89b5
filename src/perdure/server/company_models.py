"""Models as the executions of one company ask them: with the keys that are among the company's secrets.

A key is looked up for each request, right before it. One that cannot be opened asks nobody: the server's own key would
be another one's bill.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from perdure.engine.keys import DEFAULT_COMPANY
from perdure.errors import PerdureError, UserError
from perdure.models import providers
from perdure.models.port import ModelError, ModelPort, ModelRequest, Models
from perdure.models.prepared import PreparedPort
from perdure.server.secrets import Secrets


@dataclass(frozen=True, slots=True)
class CompanyModels:
    """`Models` of one company."""

    models: Models
    secrets: Secrets
    company: str
    anywhere: bool = False
    """Whether its agents may name addresses that are not public, and that the operator does not name, too. Those of the
    default company may: its people run the server."""

    def port(self, model: str, base_url: str | None = None) -> ModelPort:
        """Return the port. A scripted model has no use for a key, and is given none."""
        port = self.models.port(model, base_url)
        scripted = providers.split(model)[0] in providers.SCRIPTED
        return PreparedPort(port, self.with_guard if scripted else self.with_keys)

    async def with_guard(self, request: ModelRequest) -> ModelRequest:
        """Return the request as it may be made to an address that an agent names."""
        free = self.anywhere or self.company == DEFAULT_COMPANY or request.base_url is None
        return request if free else replace(request, guarded=True)

    async def with_keys(self, request: ModelRequest) -> ModelRequest:
        """Return the request with the company's keys. Raises `ModelError`."""
        request = await self.with_guard(request)
        try:
            keys = await self.secrets.of(self.company)
        except PerdureError as error:
            kind = "key" if isinstance(error, UserError) else "transient"
            raise ModelError(kind, f"{request.model}: {error.message}", maybe_billed=False) from error
        return replace(request, keys=keys) if keys else request

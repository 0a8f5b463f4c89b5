"""The verbs about secrets over HTTP."""

from __future__ import annotations

from perdure.client.channel import Ask, OverHttp
from perdure.core.secrets import Rotation, SecretView
from perdure.wire import bodies, codec, routes


class HttpSecrets(OverHttp):
    """`SecretsApi` over HTTP."""

    async def secrets(self) -> list[SecretView]:
        found = codec.load(bodies.SecretList, await self._channel.call(Ask("secrets", "GET", routes.SECRETS)))
        return list(found.items)

    async def set_secret(self, name: str, value: str, *, by: str = "") -> SecretView:
        body = codec.dump_given(bodies.SecretBody(value, by))
        ask = Ask("set_secret", "PUT", routes.fill(routes.SECRET, secret=name), body=body)
        return codec.load(SecretView, await self._channel.call(ask))

    async def delete_secret(self, name: str) -> None:
        path = routes.fill(routes.SECRET, secret=name)
        # Not sent again once it may have arrived: the second would say that there is none.
        await self._channel.call(Ask("delete_secret", "DELETE", path, safe=False))

    async def rotate_secrets(self, *, all_companies: bool = False) -> Rotation:
        body = codec.dump_given(bodies.RotateBody(all_companies))
        ask = Ask("rotate_secrets", "POST", routes.SECRETS_ROTATE, body=body)
        return codec.load(Rotation, await self._channel.call(ask))

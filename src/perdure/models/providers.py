"""Who can be asked for a model: names, the package each one needs, and which key goes to which address.

Pure tables and the environment; no provider's package is imported here.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from importlib.util import find_spec
from typing import Literal
from urllib.parse import urlsplit

from perdure.models.port import ModelError, ModelRequest

Protocol = Literal["chat", "responses", "anthropic", "own"]
"""`chat` and `responses` are OpenAI's two; `own` is spoken by the provider's package alone."""

ADDRESS_KEYS = "PERDURE_BASE_URL_KEYS"
"""Which key goes to an address that an agent names: `host[:port]=VARIABLE,...`. Others get none."""

NO_KEY = "no-key"
"""Sent where a package insists on a key and there is none to send, as servers on one's own machine need none."""

SCRIPTED = ("scripted", "test")

_SEPARATOR = re.compile("[/:]")


@dataclass(frozen=True, slots=True)
class Provider:
    """One name before the separator."""

    name: str
    protocol: Protocol
    module: str
    """The Python package whose absence means that the extra is missing."""
    extra: str
    key: str = ""
    """The environment variable of the key, or empty where the provider's package says it."""
    address: str = ""
    """The environment variable that moves the provider's address: an operator's choice, trusted with the key."""
    secret: str = ""
    """A company's own key, where the variable is the package's to say."""

    def own_key(self, keys: Mapping[str, str]) -> str:
        """Return the key among a company's secrets, or nothing."""
        return keys.get(self.key or self.secret, "")

    @property
    def install(self) -> str:
        """The command that brings the missing package."""
        ours = self.extra in ("openai", "anthropic", "google")
        return f'pip install "{"perdure" if ours else "pydantic-ai-slim"}[{self.extra}]"'


_OPENAI = ("openai", "openai", "OPENAI_API_KEY", "OPENAI_BASE_URL")

_SPEAK_CHAT = {
    "alibaba": "ALIBABA_API_KEY",
    "azure": "AZURE_OPENAI_API_KEY",
    "cerebras": "CEREBRAS_API_KEY",
    "deepseek": "DEEPSEEK_API_KEY",
    "fireworks": "FIREWORKS_API_KEY",
    "github": "GITHUB_API_KEY",
    "heroku": "HEROKU_INFERENCE_KEY",
    "litellm": "LITELLM_API_KEY",
    "moonshotai": "MOONSHOTAI_API_KEY",
    "nebius": "NEBIUS_API_KEY",
    "ollama": "OLLAMA_API_KEY",
    "openrouter": "OPENROUTER_API_KEY",
    "ovhcloud": "OVHCLOUD_API_KEY",
    "sambanova": "SAMBANOVA_API_KEY",
    "together": "TOGETHER_API_KEY",
    "vercel": "VERCEL_AI_GATEWAY_API_KEY",
    "vllm": "VLLM_API_KEY",
    "zai": "ZAI_API_KEY",
}
"""Providers reached through the `openai` package, and the secret that is a company's own key for each. Which variables
they read themselves, and whether they need a key at all, their packages say."""

PROVIDERS: Mapping[str, Provider] = {
    provider.name: provider
    for provider in (
        Provider("openai", "chat", *_OPENAI),
        Provider("openai-chat", "chat", *_OPENAI),
        Provider("openai-responses", "responses", *_OPENAI),
        Provider("anthropic", "anthropic", "anthropic", "anthropic", "ANTHROPIC_API_KEY", "ANTHROPIC_BASE_URL"),
        Provider("google", "own", "google.genai", "google", "GOOGLE_API_KEY"),
        Provider("groq", "own", "groq", "groq", "GROQ_API_KEY"),
        Provider("mistral", "own", "mistralai", "mistral", "MISTRAL_API_KEY"),
        Provider("cohere", "own", "cohere", "cohere", "CO_API_KEY"),
        *(Provider(name, "own", "openai", "openai", secret=secret) for name, secret in _SPEAK_CHAT.items()),
    )
}
"""Only providers whose package can be told to make one request and no more are here."""

_FAMILIES = {"gpt": "openai", "o3": "openai", "o4": "openai", "claude": "anthropic", "gemini": "google"}


@lru_cache(maxsize=256)
def split(model: str) -> tuple[str, str]:
    """Return (provider, name), cut at the first `/` or `:`; the provider is empty when there is neither."""
    match = _SEPARATOR.search(model)
    return (model[: match.start()].lower(), model[match.end() :]) if match else ("", model)


def find(model: str, base_url: str | None) -> tuple[Provider, str]:
    """Return the provider of a model and the name that it knows the model by.

    With a `base_url` a name needs no provider: `qwen3`, or `meta-llama/Llama-4` whole, is asked for in the
    chat-completions protocol. `anthropic/...` and `openai-responses/...` speak their own there too.
    Raises `ModelError`: `unknown_model` with the nearest name, `missing_extra` with the command.
    """
    prefix, name = split(model)
    provider = PROVIDERS.get(prefix)
    if base_url is not None:
        _check_address(model, base_url)
        if provider is None or provider.protocol == "own":
            provider, name = PROVIDERS["openai"], (name if provider else model)
    if provider is None or not name:
        raise ModelError("unknown_model", unknown(model, prefix, name), maybe_billed=False)
    if not _installed(provider.module):
        message = f"{model}: the package {provider.module!r} is not installed where the model is called. "
        raise ModelError("missing_extra", f"{message}Run: {provider.install}", maybe_billed=False)
    return provider, name


def streams(request: ModelRequest, environ: Mapping[str, str]) -> bool:
    """Say whether a reply is asked for in pieces: where the provider is at its own address, or the agent says
    `stream=True`. An address of somebody's own need not know how, and one that does not would fail."""
    said = request.settings.get("stream")
    if isinstance(said, bool):
        return said
    provider = PROVIDERS.get(split(request.model)[0])
    moved = provider is not None and bool(provider.address) and bool(environ.get(provider.address))
    return request.base_url is None and not moved


def unknown(model: str, prefix: str, name: str) -> str:
    """Return the sentence that says why a model's name leads nowhere, and the nearest one that does."""
    if not prefix:
        family = next((provider for start, provider in _FAMILIES.items() if model.startswith(start)), None)
        hint = f"Did you mean {family}/{model}?" if family else "For example openai/gpt-5.5."
        return f"model {model!r}: expected provider/model. {hint}"
    if prefix in PROVIDERS:
        return f"model {model!r}: expected a model's name after {prefix!r}."
    near = difflib.get_close_matches(prefix, [*PROVIDERS, *SCRIPTED], n=1, cutoff=0.5)
    hint = f"Did you mean {near[0]}/{name}?" if near else f"Known: {', '.join(sorted(PROVIDERS))}."
    return f"model {model!r}: no provider is called {prefix!r}. {hint} A server of your own needs a base_url."


NO_KEYS: Mapping[str, str] = {}


def key_for(
    provider: Provider, base_url: str | None, environ: Mapping[str, str], keys: Mapping[str, str] = NO_KEYS
) -> str:
    """Return the key to send to an address; empty when a key is needed and missing. `keys`: the company's secrets,
    each of which takes the place of the variable of its name.

    The provider's key never goes to an address that an agent's definition names, unless the operator gave that
    address too: whoever may define an agent could otherwise have the key sent to himself. Addresses are the operator's
    to say: no secret is looked at for one.
    """
    own = environ.get(provider.address, "") if provider.address else ""
    if base_url is None or _same(base_url, own):
        return provider.own_key(keys) or environ.get(provider.key, "") or (NO_KEY if own else "")
    variable = address_key(base_url, environ)
    return (keys.get(variable, "") or environ.get(variable, "") if variable else "") or NO_KEY


def address_key(base_url: str, environ: Mapping[str, str]) -> str:
    """Return the variable that `PERDURE_BASE_URL_KEYS` names for an address, or nothing."""
    host = urlsplit(base_url).netloc.lower()
    pairs = (entry.partition("=") for entry in environ.get(ADDRESS_KEYS, "").split(","))
    return next((variable.strip() for name, _, variable in pairs if name.strip().lower() == host), "")


def _same(base_url: str, own: str) -> bool:
    return bool(own) and base_url.rstrip("/") == own.rstrip("/")


def _check_address(model: str, base_url: str) -> None:
    parts = urlsplit(base_url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        message = f"{model}: base_url is {base_url!r}, expected an address like https://host/v1."
        raise ModelError("rejected", message, maybe_billed=False)


def _installed(module: str) -> bool:
    try:
        return find_spec(module) is not None
    except ModuleNotFoundError:  # the parent of a dotted name is missing
        return False

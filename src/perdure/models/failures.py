"""What each failure of pydantic-ai's means in our words, and the sentence that names the fix.

Every exception ends here, so that no provider's own reaches the caller.
"""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from typing import Any, cast
from urllib.parse import urlsplit

from pydantic_ai import exceptions

from perdure.core.redaction import Redaction
from perdure.errors import PermanentError
from perdure.models.guarded import refused
from perdure.models.port import ModelError, ModelFailure, ModelRequest
from perdure.models.providers import ADDRESS_KEYS, Provider

LONGEST_QUOTE = 500
"""Characters of a provider's own words in a message of ours."""

_TRANSIENT_STATUS = (408, 409, 425, 429)

_KINDS: tuple[tuple[type[Exception], ModelFailure, str], ...] = (
    (exceptions.ModelQuotaExceededError, "quota", "the quota or the credit is used up"),
    (exceptions.ModelAuthenticationError, "key", "the key was refused"),
    (exceptions.ModelNotFoundError, "unknown_model", "there is no such model"),
    (exceptions.ModelContextWindowExceededError, "context_window", "the conversation is too long for the model"),
    (exceptions.ModelRequestRejectedError, "rejected", "the request was rejected"),
    (exceptions.ContentFilterError, "rejected", "the provider's content filter refused the request"),
    (exceptions.UserError, "rejected", "the request cannot be made"),
    (exceptions.ModelRateLimitError, "transient", "a rate limit was reached"),
    (exceptions.ModelOverloadedError, "transient", "the provider is overloaded"),
    (exceptions.ModelUnavailableError, "transient", "the provider is unavailable"),
    (exceptions.ModelServerError, "transient", "the provider failed"),
    (exceptions.ModelTimeoutError, "transient", "the provider fell silent"),
    (exceptions.ModelRequestTimeout, "transient", "the reply took too long"),
    (exceptions.ModelConnectionError, "transient", "the connection failed"),
    (exceptions.UnexpectedModelBehavior, "transient", "the reply made no sense"),
)
"""The first class that fits, in this order: an authentication error is a rejected request too."""


@contextmanager
def told(request: ModelRequest, provider: Provider, hidden: Redaction) -> Generator[None]:
    """Turn whatever is raised inside into a `ModelError`, without what is to be hidden."""
    try:
        yield
    except ModelError as error:
        hidden.error(error)
        raise
    except Exception as error:
        raise hidden.error(model_error(hidden.error(error), request, provider)) from error


def model_error(error: Exception, request: ModelRequest, provider: Provider) -> ModelError:
    """Return what a failure means: who acts next, the provider's words, and the fix."""
    if (refusal := _refusal_in(error)) is not None:
        return refused(request, refusal)
    kind, meaning = _meaning(error)
    status = getattr(error, "status_code", None)
    http = f" (HTTP {status})" if status else ""
    message = f'{request.model}: {meaning}{http}: "{_said(error)}".{_fix(kind, error, request, provider)}'
    retry_after = getattr(error, "retry_after", None)
    return ModelError(kind, message, retry_after=retry_after, maybe_billed=not _unsent(error))


def _refusal_in(error: BaseException | None) -> PermanentError | None:
    """Return the guard's refusal that a package has made a broken connection of."""
    while error is not None and not isinstance(error, PermanentError):
        error = error.__cause__ or error.__context__
    return error


def missing_key(model: str, variable: str) -> ModelError:
    """Return the refusal to ask without a key."""
    message = (
        f"{model}: there is no key for it. Set {variable} in the environment where the model is called "
        f"(the server's, or this process's without one), or keep it as a secret (perdure secrets set {variable}), then "
        "resume."
    )
    return ModelError("key", message, maybe_billed=False)


def _meaning(error: Exception) -> tuple[ModelFailure, str]:
    for kind, failure, meaning in _KINDS:
        if isinstance(error, kind):
            return failure, meaning
    if isinstance(error, exceptions.ModelHTTPError):
        transient = error.status_code in _TRANSIENT_STATUS or error.status_code >= 500
        return ("transient", "the provider failed") if transient else ("rejected", "the request was rejected")
    # Broken bodies and chunks, and what the provider's package lets through: the next reply may be whole.
    return "transient", "the reply could not be read"


def _unsent(error: Exception) -> bool:
    if isinstance(error, exceptions.ModelConnectionError):
        return error.phase in ("pool", "connect")
    return isinstance(error, exceptions.UserError)


def _said(error: Exception) -> str:
    body = getattr(error, "body", None)
    if isinstance(body, dict):
        fields = cast("dict[str, Any]", body)
        inner = fields.get("error", fields)
        said = cast("dict[str, Any]", inner).get("message") if isinstance(inner, dict) else inner
        if isinstance(said, str) and said:
            return said[:LONGEST_QUOTE].rstrip(".")
    words = (str(error) or type(error).__name__).rstrip(".")
    if getattr(error, "status_code", None) is None and (why := str(_first_cause(error))) not in words:
        words += f": {why}"  # of a connection that failed the libraries say no more than that
    return words[:LONGEST_QUOTE].rstrip(".")


def _first_cause(error: BaseException) -> BaseException:
    while error.__cause__ is not None:
        error = error.__cause__
    return error


def _fix(kind: ModelFailure, error: Exception, request: ModelRequest, provider: Provider) -> str:
    match kind:
        case "key" if request.base_url is not None:
            host = urlsplit(request.base_url).netloc
            return f" Name the variable that holds the key of {host} in {ADDRESS_KEYS}={host}=VARIABLE, then resume."
        case "key":
            variable = provider.key or provider.secret or f"the key of {provider.name}"
            place = "among the company's secrets" if provider.own_key(request.keys) else "where the model is called"
            return f" Set a valid {variable} {place}, then resume."
        case "quota":
            return f" Add credit or raise the limit at {provider.extra}, then resume."
        case "unknown_model":
            near = getattr(error, "suggested_model_id", None)
            return f" Did you mean {near}?" if near else " Check the model's name, and the address if you set one."
        case "context_window":
            return " Shorten the conversation or choose a model with a larger window."
        case "rejected":
            return " Check the settings, the tools' schemas and the conversation: asking again changes nothing."
        case _:
            return ""

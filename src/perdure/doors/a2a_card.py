"""The card of a published agent: who it is, where it is reached, and what it can do. Pure.

One JSON object holds what A2A 1.0 asks for and what 0.3 does: neither minds the other's fields.
"""

from __future__ import annotations

from typing import Any

from perdure.core.a2a import PublishedView

MODES = ["text/plain", "application/json"]
"""What an agent reads and answers."""
_BINDING = "JSONRPC"
_KEY = "key"


def card_of(agent: PublishedView, address: str, *, asks_for_key: bool, pushes: bool) -> dict[str, Any]:
    """Return the card. `address`: where the agent is reached, whole; `pushes`: whether others are told of news."""
    description = agent.description or f"The agent {agent.agent}."
    skill = {"id": agent.agent, "name": agent.agent, "description": description, "tags": ["agent"]}
    card: dict[str, Any] = {
        "name": agent.agent,
        "description": description,
        "version": agent.definition[:12],
        "supportedInterfaces": [
            {"url": address, "protocolBinding": _BINDING, "protocolVersion": version} for version in ("1.0", "0.3")
        ],
        "capabilities": {"streaming": True, "pushNotifications": pushes},
        "defaultInputModes": MODES,
        "defaultOutputModes": MODES,
        "skills": [skill],
        # Of 0.3.
        "url": address,
        "preferredTransport": _BINDING,
        "protocolVersion": "0.3.0",
    }
    if asks_for_key:
        scheme = {"scheme": "bearer"}
        card["securitySchemes"] = {_KEY: {"httpAuthSecurityScheme": scheme, "type": "http", **scheme}}
        card["securityRequirements"] = [{"schemes": {_KEY: {"list": []}}}]
        card["security"] = [{_KEY: []}]
    return card

"""What opens something for whoever has it: keys, links, sessions, tokens of waits, secrets of hooks. Pure.

The store keeps none of them, only what this makes of them.
"""

from __future__ import annotations

import hashlib


def hash_of(credential: str) -> str:
    """Return what the store keeps of a credential: 256 bits of chance need no slow hash. Any text has one."""
    return hashlib.sha256(credential.encode("utf-8", "replace")).hexdigest()

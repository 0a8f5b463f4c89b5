"""Vectors of texts, by a model that comes in a wheel: a vector for each token, and for a text a mean of its tokens'.

Two files of the package `wordllama` are read, its weights and its tokenizer, and none of its code is run: importing it
sets up the logging of the whole process, and for a file that it does not find it asks the network. Nothing here does.
"""

from __future__ import annotations

import base64
from collections.abc import Sequence
from functools import cached_property
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from perdure.core.ports import Embedder

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

MODEL = "1 wordllama l2_supercat 256"
"""The number grows with each other model, weights or way to write a vector: then all texts get new ones."""
MOST_READ = 10_000
"""Characters of a text that count."""

_NEEDED = ("numpy", "safetensors", "tokenizers", "wordllama")
_WEIGHTS = "weights/l2_supercat_256.safetensors"
_TOKENIZER = "tokenizers/l2_supercat_tokenizer_config.json"
_SIZE = 256
_BYTES = _SIZE + 2
"""Of a vector: a byte for each number, and what one step of them is worth."""
_LETTERS = _BYTES * 4 // 3
"""Of the same in base64, without a rest."""
_LETTERS_UPTO, _ORDINARY, _LEAST = 258, 300.0, 0.05
"""The tokenizer learned its tokens by how frequent they are, single letters first. So the first say the least: `the`
weighs a twentieth, the 300th one half, and a rare one nearly 1."""
_AT_ONCE = 4_096
"""Vectors that are spread out to compare them: four megabytes."""


def installed_embedder() -> Embedder | None:
    """Return what makes vectors, if the extra `vectors` is installed; nothing of it is loaded before its use."""
    found = [find_spec(name) for name in _NEEDED]
    origin = found[-1].origin if all(found) and found[-1] is not None else None
    if origin is None:
        return None
    package = Path(origin).parent
    there = (package / _WEIGHTS).is_file() and (package / _TOKENIZER).is_file()
    return StaticEmbedder(package) if there else None


class StaticEmbedder:
    """An `Embedder`. Safe from any thread: two that load at once load the same."""

    model = MODEL

    def __init__(self, package: Path) -> None:
        """`package`: the folder with the weights and the tokenizer."""
        self._package = package

    def vectors(self, texts: Sequence[str]) -> list[str]:
        return [_written(mean) for mean in map(self._mean, texts)]

    def likeness(self, text: str, vectors: Sequence[str]) -> Sequence[float]:
        import numpy as np  # noqa: PLC0415 - numpy is an extra

        asked = self._mean(text)
        if asked is None:
            return [0.0] * len(vectors)
        table = np.frombuffer(_read(vectors), np.uint8).reshape(-1, _BYTES)
        found: list[float] = []
        for first in range(0, len(table), _AT_ONCE):
            part = table[first : first + _AT_ONCE]
            steps = part[:, :_SIZE].view(np.int8).astype(np.float32)
            worth = np.ascontiguousarray(part[:, _SIZE:]).view("<f2")[:, 0].astype(np.float32)
            found += (np.einsum("ij,j->i", steps, asked) * worth).tolist()
        return found

    def _mean(self, text: str) -> NDArray[np.float32] | None:
        """Return the weighted mean of a text's tokens, of length 1; None if it has none that mean anything."""
        import numpy as np  # noqa: PLC0415 - numpy is an extra

        tokenizer, table = self._loaded
        tokens = np.array(tokenizer.encode(text[:MOST_READ], add_special_tokens=False).ids, np.int64)
        rank = np.maximum(tokens - _LETTERS_UPTO, 0).astype(np.float32)
        weights = np.maximum(rank / (rank + _ORDINARY), _LEAST)
        # Not `@`: it takes threads, which wait for each other on a busy machine, and rounds a row by its neighbours.
        mean: NDArray[np.float32] = np.einsum("i,ij->j", weights, table[tokens].astype(np.float32))
        length = float(np.linalg.norm(mean))
        return mean / np.float32(length) if length > 0 else None

    @cached_property
    def _loaded(self) -> tuple[Any, NDArray[np.float16]]:
        from safetensors import numpy as weights  # noqa: PLC0415 - likewise, and it takes a tenth of a second
        from tokenizers import Tokenizer  # noqa: PLC0415 - likewise

        tokenizer = Tokenizer.from_file(str(self._package / _TOKENIZER))
        file = self._package / _WEIGHTS
        table: Any = weights.load_file(file)["embedding.weight"]  # type: ignore[reportUnknownMemberType] - half typed
        return tokenizer, table


def _read(vectors: Sequence[str]) -> bytes:
    """Return the bytes of vectors, one after the other; of what is none, zeros."""
    if all(len(one) == _LETTERS for one in vectors):
        try:
            return base64.b64decode("".join(vectors), validate=True)
        except ValueError:
            pass  # it is one of them: each by itself
    return b"".join(map(_read_one, vectors))


def _read_one(vector: str) -> bytes:
    try:
        raw = base64.b64decode(vector, validate=True)
    except ValueError:  # binascii.Error is one
        return bytes(_BYTES)
    return raw if len(raw) == _BYTES else bytes(_BYTES)


def _written(mean: NDArray[np.float32] | None) -> str:
    """Return a vector as text: whole steps of a 127th of its largest number."""
    import numpy as np  # noqa: PLC0415 - numpy is an extra

    if mean is None:
        return ""
    worth = np.array([np.abs(mean).max() / 127], "<f2")
    steps = np.clip(np.rint(mean / worth.astype(np.float32)), -127, 127).astype(np.int8)
    return base64.b64encode(steps.tobytes() + worth.tobytes()).decode()

"""Read the text of one file, and write it to standard output. A program: it limits itself, reads, and ends.

Run by its path in a fresh interpreter, never imported: `extract.py FILE MEMORY_BYTES CPU_SECONDS`. What a file is, is
told from its bytes, not from its name. The first line of the output is `text`, `none` or why there is no text.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

MAX_TEXT_BYTES = 1_900_000
"""Of what is written. A file that says more is read up to here."""
MAX_PAGES = 2_000


def main(given: list[str]) -> int:
    path, memory, seconds = given
    _limit(int(memory), int(seconds))
    try:
        state, text = _read(Path(path).read_bytes())
        kept = text[:MAX_TEXT_BYTES].replace("\0", "").encode("utf-8", "replace")[:MAX_TEXT_BYTES]
    except MemoryError:
        state, kept = f"reading it takes more than {int(memory) // 2**20:,} MB of memory", b""
    sys.stdout.buffer.write(f"{' '.join(state.split())[:200]}\n".encode("utf-8", "replace") + kept)
    return 0


def _limit(memory: int, seconds: int) -> None:
    try:
        import resource  # noqa: PLC0415 - not on every system
    except ImportError:
        return
    resource.setrlimit(resource.RLIMIT_AS, (memory, memory))
    resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds + 1))  # a second to die of the signal that says why
    resource.setrlimit(resource.RLIMIT_FSIZE, (2 * MAX_TEXT_BYTES, 2 * MAX_TEXT_BYTES))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def _read(content: bytes) -> tuple[str, str]:
    if b"%PDF-" in content[:1024]:
        return _pdf(content)
    if b"\0" in content:
        return "none", ""
    try:
        return "text", content.decode("utf-8-sig")
    except UnicodeDecodeError:
        return "none", ""


def _pdf(content: bytes) -> tuple[str, str]:
    import logging  # noqa: PLC0415 - a text needs none of this
    from io import BytesIO  # noqa: PLC0415 - as above

    from pypdf import PdfReader  # noqa: PLC0415 - as above

    logging.disable(logging.CRITICAL)  # it complains of every odd file, and the server's log is not for that
    try:
        reader = PdfReader(BytesIO(content))
        if reader.is_encrypted and not reader.decrypt(""):
            return "the PDF is encrypted, and a password is needed", ""
        text = "\n\n".join(_pages(reader))
    except MemoryError:
        raise
    except Exception as error:  # noqa: BLE001 - a broken file can break its reader in any way
        return f"the PDF cannot be read: {error}", ""
    return ("text", text) if text.strip() else ("none", "")


def _pages(reader: Any) -> Iterator[str]:
    size = 0
    for number, page in enumerate(reader.pages):
        if number == MAX_PAGES or size > MAX_TEXT_BYTES:
            return
        text: str = page.extract_text()
        size += len(text)
        yield text


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

"""Play `perdure demo --yes` in a terminal and draw what it printed: `python tools/record_demo.py [ARGUMENTS]`.

Writes docs/assets/demo.svg, the picture in README.md. Nothing of the output is changed.
"""

from __future__ import annotations

import io
import os
import pty
import sys
from pathlib import Path

from rich.console import Console
from rich.terminal_theme import MONOKAI
from rich.text import Text

ROOT = Path(__file__).resolve().parents[1]
PICTURE = ROOT / "docs" / "assets" / "demo.svg"
COLUMNS = 100


def main() -> None:
    arguments = sys.argv[1:] or ["--yes"]
    code, said = played([sys.executable, "-m", "perdure", "demo", *arguments])
    if code:
        raise SystemExit(f"the demo ended with exit code {code}; the picture stays as it was:\n{said}")
    PICTURE.write_text(drawn(said, " ".join(["perdure demo", *arguments])), encoding="utf-8")


def played(command: list[str]) -> tuple[int, str]:
    """Run a command in a terminal; return its exit code and all that it printed."""
    pid, screen = pty.fork()
    if pid == 0:
        os.environ.update(TERM="xterm-256color", COLORTERM="truecolor", COLUMNS=str(COLUMNS))
        os.execv(command[0], command)
    said = bytearray()
    while True:
        try:
            piece = os.read(screen, 65536)
        except OSError:  # the program has closed its side
            break
        if not piece:
            break
        said += piece
    _, status = os.waitpid(pid, 0)
    return os.waitstatus_to_exitcode(status), said.decode().replace("\r\n", "\n")


def drawn(said: str, title: str) -> str:
    """Return the terminal's text, colours included, as an SVG picture."""
    console = Console(record=True, file=io.StringIO(), width=COLUMNS, force_terminal=True, color_system="truecolor")
    console.print(Text.from_ansi(said.rstrip()), soft_wrap=True)
    console.print()  # or the picture's edge cuts the last line's feet
    return console.export_svg(title=title, theme=MONOKAI, unique_id="perdure-demo")


if __name__ == "__main__":
    main()

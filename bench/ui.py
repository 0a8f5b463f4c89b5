"""What the web UI costs a browser: the size of what it loads first, gzipped as the server sends it, and, with
`--browser`, how soon a list of 100,000 executions shows its first rows and how evenly it scrolls, in headless Chromium.

Build it first: ./dev ui. Without a build there is no figure. Exit code 1 if a bar is missed.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from search import fill

from perdure.server.pages import FOLDER, pages
from perdure.store.sqlite import open_sqlite
from perdure.system import SystemClock, SystemRandom

MOST_KB = 230.0
MOST_FIRST_ROWS_MS = 300.0
MOST_FRAME_MS = 20.0
FRAMES = Path(__file__).parents[1] / "ui" / "e2e" / "frames.mjs"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--no-bar", action="store_true", help="judge nothing")
    parser.add_argument("--browser", action="store_true", help="measure in a browser, too: needs Node and Chromium")
    parser.add_argument("--executions", type=int, default=100_000, help="how many the list has")
    arguments = parser.parse_args()
    if not (FOLDER / "index.html").exists():
        print("0 kB: the web UI is not built; run ./dev ui")
        return 0 if arguments.no_bar else 1
    held = size()
    if arguments.browser:
        held &= frames(arguments.executions)
    return 0 if held or arguments.no_bar else 1


def size() -> bool:
    """Print the sizes; say whether they hold."""
    total = 0
    index = (FOLDER / "index.html").read_text(encoding="utf-8")
    for path in re.findall(r'(?:src|href)="(/[^"]+\.(?:js|css))"', index):
        page = pages().find(path)
        assert page is not None, path
        packed = len(page.packed or page.body)
        total += packed
        print(f"{path:45} {len(page.body) / 1000:8.1f} kB, gzipped {packed / 1000:6.1f} kB")
    return told("all that is needed first", total / 1000, MOST_KB, "kB gzipped")


def frames(executions: int) -> bool:
    """Print what a browser saw of a long list; say whether it holds."""
    with tempfile.TemporaryDirectory(dir=Path.cwd()) as folder:
        place = Path(folder) / "perdure.db"
        store = open_sqlite(place, clock=SystemClock(), random=SystemRandom())
        fill(store, executions)
        store.close()
        with serving(place) as ready:
            command = ["node", str(FRAMES), ready["url"], ready["login"]]
            seen: dict[str, float] = json.loads(subprocess.run(command, check=True, capture_output=True).stdout)
    print(f"{executions:,} executions, scrolled over {seen['scrolled_px']:,.0f} px")
    first = told("first rows after navigation", seen["first_rows_ms"], MOST_FIRST_ROWS_MS, "ms, the middle of five")
    return told("a frame while scrolling, p95", seen["frame_p95_ms"], MOST_FRAME_MS, "ms") and first


@contextmanager
def serving(place: Path) -> Iterator[dict[str, Any]]:
    """Run a server on a store, and yield what it says of itself."""
    command = [sys.executable, "-m", "perdure", "server", "--json", "--port", "0", "--store", str(place)]
    around = os.environ | {"XDG_STATE_HOME": str(place.parent)}
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=around) as server:
        assert server.stdout is not None
        try:
            yield json.loads(server.stdout.readline())
        finally:
            server.terminate()


def told(what: str, found: float, most: float, unit: str) -> bool:
    """Print a figure beside its bar."""
    held = found <= most
    print(f"{what:45} {found:8.1f} {unit}, at most {most:g}: {'held' if held else 'MISSED'}")
    return held


if __name__ == "__main__":
    sys.exit(main())

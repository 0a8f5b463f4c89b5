"""What the web UI costs a browser: the size of what it loads first, gzipped as the server sends it, and, with
`--browser`, in headless Chromium: how soon a list of 100,000 executions shows its first rows and how evenly it scrolls,
and how soon the timeline of an execution with 10,000 events is drawn and answers a click.

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

import long_logs
from search import fill

from perdure.core.events import Kind
from perdure.engine.query import PAGE, events_page
from perdure.server.pages import FOLDER, pages
from perdure.store.protocol import Store
from perdure.store.sqlite import open_sqlite
from perdure.system import SystemClock, SystemRandom

MOST_KB = 230.0
MOST_FIRST_ROWS_MS = 300.0
MOST_FRAME_MS = 20.0
MOST_TIMELINE_MS = 1_000.0
DRAWN = (Kind.STEP_RECORDED, Kind.TASK_SCHEDULED)
"""What has a row in the timeline."""
SCRIPTS = Path(__file__).parents[1] / "ui" / "e2e"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--no-bar", action="store_true", help="judge nothing")
    parser.add_argument("--browser", action="store_true", help="measure in a browser, too: needs Node and Chromium")
    parser.add_argument("--executions", type=int, default=100_000, help="how many the list has")
    parser.add_argument("--events", type=int, default=10_000, help="how many the timeline's execution has, at least")
    arguments = parser.parse_args()
    if not (FOLDER / "index.html").exists():
        print("0 kB: the web UI is not built; run ./dev ui")
        return 0 if arguments.no_bar else 1
    held = size()
    if arguments.browser:
        held &= frames(arguments.executions)
        held &= timeline(arguments.events)
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
    with stored() as (store, place):
        fill(store, executions)
        seen = looked_at(store, place, "frames")
    print(f"{executions:,} executions, scrolled over {seen['scrolled_px']:,.0f} px")
    first = told("first rows after navigation", seen["first_rows_ms"], MOST_FIRST_ROWS_MS, "ms, the middle of five")
    return told("a frame while scrolling, p95", seen["frame_p95_ms"], MOST_FRAME_MS, "ms") and first


def timeline(events: int) -> bool:
    """Print how soon the timeline of a long execution answers; say whether that holds."""
    with stored() as (store, place):
        execution = long_logs.fill(store, events, ended=True)
        count, rows = counted(store, execution)
        seen = looked_at(store, place, "timeline", execution, str(rows))
    print(f"{count:,} events, {rows:,} rows: all drawn {seen['drawn_ms']:.0f} ms after navigation")
    what = f"an execution with {events:,} events: timeline interactive"
    return told(what, seen["answered_ms"], MOST_TIMELINE_MS, "ms to an answered click, the middle of five")


def counted(store: Store, execution: str) -> tuple[int, int]:
    """Return how many events an execution has, and how many of them have a row in the timeline."""
    count = rows = 0
    with store.read() as reads:
        while page := events_page(reads, execution, count, PAGE):
            count += len(page)
            rows += sum(event.kind in DRAWN for event in page)
    return count, rows


@contextmanager
def stored() -> Iterator[tuple[Store, Path]]:
    """Have a store to fill, in a file on this disk."""
    with tempfile.TemporaryDirectory(dir=Path.cwd()) as folder:
        place = Path(folder) / "perdure.db"
        yield open_sqlite(place, clock=SystemClock(), random=SystemRandom()), place


def looked_at(store: Store, place: Path, script: str, *given: str) -> dict[str, float]:
    """Close the store, serve it, and return what a browser saw of it."""
    store.close()
    with serving(place) as ready:
        command = ["node", str(SCRIPTS / f"{script}.mjs"), ready["url"], ready["login"], *given]
        return json.loads(subprocess.run(command, check=True, capture_output=True).stdout)


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

"""How much a browser loads before it shows something: the main bundle's size, gzipped as the server sends it.

Build it first: ./dev ui. Without a build there is no figure.
"""

from __future__ import annotations

import argparse
import re
import sys

from perdure.server.pages import FOLDER, pages

MOST_KB = 230.0


def main() -> int:
    """Print the sizes; exit code 1 if the bar is missed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--no-bar", action="store_true", help="judge nothing")
    arguments = parser.parse_args()
    index = FOLDER / "index.html"
    if not index.exists():
        print("0 kB: the web UI is not built; run ./dev ui")
        return 0 if arguments.no_bar else 1
    total = 0
    for path in re.findall(r'(?:src|href)="(/[^"]+\.(?:js|css))"', index.read_text(encoding="utf-8")):
        page = pages().find(path)
        assert page is not None, path
        size = len(page.packed or page.body)
        total += size
        print(f"{path:45} {len(page.body) / 1000:8.1f} kB, gzipped {size / 1000:6.1f} kB")
    held = total / 1000 <= MOST_KB
    bar = f"at most {MOST_KB:g}: {'held' if held else 'MISSED'}"
    print(f"{'all that is needed first':45} gzipped {total / 1000:6.1f} kB, {bar}")
    return 0 if held or arguments.no_bar else 1


if __name__ == "__main__":
    sys.exit(main())

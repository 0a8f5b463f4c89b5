"""Write ui/openapi.json: the description of the API that the web UI is built against, or say whether it is current.

The UI's types come from it, so a route or a field that changes shows in a review, and breaks the UI's build where it
was used. Run it after a change of the API; `--check` changes nothing and fails on a difference. It needs no Node.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

from perdure.server.app import control_app
from perdure.server.openapi import describe

PLACE = Path(__file__).parents[1] / "ui" / "openapi.json"
VERSION = "0"
"""Not the package's: the description is the same whatever the release is called."""


def described() -> str:
    """Return the description as it is kept: in a stable order, a line for each fact."""
    return json.dumps(describe(control_app(VERSION), VERSION), indent=1, sort_keys=True, ensure_ascii=False) + "\n"


def main() -> int:
    """Write it, or compare."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="write nothing; exit code 1 if it is not current")
    if parser.parse_args().check:
        current = PLACE.read_text(encoding="utf-8") == described()
        if not current:
            sys.stderr.write(f"{PLACE.name} is not what the API says of itself: run tools/openapi.py\n")
        return 0 if current else 1
    PLACE.write_text(described(), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""The raw ceiling, run as the contenders are: `bench/ceiling.py` writes the rows, and this says how fast."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from workloads import read_options

sys.path.insert(0, str(Path(__file__).parents[1]))
import ceiling

if __name__ == "__main__":
    given = read_options()
    rate = ceiling.measure(given.folder, given.concurrency, given.seconds, given.mode, given.database)
    print(json.dumps({"steps_per_second": rate}))

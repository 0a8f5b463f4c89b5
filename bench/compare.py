"""Measure Perdure beside other durable runtimes, and beside what disk and databases give raw, in one run on one disk.

Durable settings everywhere: what a runtime calls recorded is on disk. Rounds go through all rows in turn, so that what
else the machine does hits all of them; medians are compared. A row says which roles share a process.

W1: executions of five model and five tool steps that do nothing, 50 at a time and one at a time.
W2: the time from step to step, one at a time.
W3: kill -9 of the worker when half the steps of 200 executions were made; another one is started at once.
W4: executions that wait for a signal: what they cost meanwhile, and how fast they wake. With --long, ours once more
with 100,000 and with 1,000,000: how much more memory each takes from the one to the other, and whether one among a
million still wakes as quickly.

Peers are installed once, from locks with hashes, into .dev/peers; those that cannot be are named. Ends with 1, and with
the lines that were missed, if a bar was.
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path

from compared import bars, rows
from compared.environments import prepare
from compared.report import report
from compared.run import Run, Size
from compared.running import NotRun, place

WORKLOADS = ("w1", "w2", "w3", "w4")
LEAST = 20
"""Executions that W4 needs: it wakes some one by one, and the others at once."""


def read_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", help="of the workloads, with commas: " + ", ".join(WORKLOADS))
    parser.add_argument("--peers", default=None, help="of the peers, with commas; an empty text: none")
    parser.add_argument("--rows", default="", help="only rows with this in their name")
    parser.add_argument("--seconds", type=float, default=3.0, help="of one measurement in W1 (3)")
    parser.add_argument("--rounds", type=int, default=3, help="of W1, W2 and W3 (3)")
    parser.add_argument("--parked", type=int, default=5_000, help="in W4, of each (5,000)")
    parser.add_argument(
        "--long",
        nargs="?",
        type=two_sizes,
        const=(100_000, 1_000_000),
        metavar="FEWER,MORE",
        help="in W4, ours with two more sizes (100000,1000000); takes as long as it takes",
    )
    parser.add_argument("--folder", type=Path, default=Path.cwd(), help="on a disk; everything written goes below it")
    parser.add_argument("--no-bar", action="store_true", help="print, and judge nothing")
    return parser.parse_args()


def two_sizes(text: str) -> tuple[int, int]:
    """Return the sizes that `--long` names. Raises what the parser shows."""
    fewer, _, more = text.partition(",")
    if not (fewer.isdigit() and more.isdigit() and LEAST <= int(fewer) < int(more)):
        raise argparse.ArgumentTypeError(f"{text!r} is not FEWER,MORE: two numbers from {LEAST} on, the larger last")
    return int(fewer), int(more)


def chosen_peers(given: str | None) -> tuple[dict[str, Path], dict[str, str]]:
    """Return the Pythons of the peers that are to be measured, and why others cannot be."""
    known = list(dict.fromkeys(row.peer for row in rows.PEERS))
    names = known if given is None else [name for name in given.split(",") if name]
    if unknown := [name for name in names if name not in known]:
        raise NotRun(f"there is no peer {unknown[0]!r}; there are: {', '.join(known)}.")
    pythons: dict[str, Path] = {}
    missing: dict[str, str] = {}
    for name in names:
        try:
            pythons[name] = prepare(name)
        except NotRun as error:
            missing[name] = str(error)
            print(f"peer {name} is not measured: {error}", file=sys.stderr, flush=True)
    return pythons, missing


def main() -> int:
    began = time.monotonic()
    options = read_options()
    asked = options.only.split(",") if options.only else WORKLOADS
    workloads = [one for one in WORKLOADS if one in asked]
    try:
        if unknown := [one for one in asked if one not in WORKLOADS]:
            raise NotRun(f"there is no workload {unknown[0]!r}; there are: {', '.join(WORKLOADS)}.")
        pythons, missing = chosen_peers(options.peers)
        there = {*pythons, rows.OURS, rows.CEILING}
        chosen = [row for row in rows.ROWS if options.rows in row.name and row.peer in there]
        with place(options.folder, pythons) as where:
            size = Size(options.seconds, options.rounds, options.parked, options.long)
            run = Run(where, size, chosen, began=began)
            run.all(workloads)
        report(run, workloads, missing)
        verdicts = bars.judge(run.figures, workloads)
        return 0 if bars.tell(verdicts) or options.no_bar else 1
    except NotRun as error:
        print(f"compare: {error}", file=sys.stderr)
        return 2


if __name__ == "__main__":
    sys.exit(main())

"""Start a program that dies when its parent dies (Linux). Standard library only.

Run by its path in a fresh interpreter, never imported: `skills_launch.py PARENT_PID PROGRAM [ARGUMENT ...]`.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys

PR_SET_PDEATHSIG = 1


def main() -> None:
    parent, program = int(sys.argv[1]), sys.argv[2]
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        # It died before the kernel knew whom to watch.
        raise SystemExit(137)
    try:
        os.execv(program, sys.argv[2:])
    except OSError as error:
        sys.stderr.write(f"{program} cannot be run: {error.strerror}\n")
        raise SystemExit(126) from None


if __name__ == "__main__":
    main()

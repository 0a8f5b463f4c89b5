"""Decide what an execution waits for: `python approve.py EXECUTION_ID [--reject REASON]`."""

from __future__ import annotations

import sys

from perdure import AgentHandle, AgentRuntime

if len(sys.argv) not in (2, 4) or sys.argv[2:3] not in ([], ["--reject"]):
    raise SystemExit("usage: python approve.py EXECUTION_ID [--reject REASON]")

with AgentRuntime() as runtime:
    handle = AgentHandle(execution_id=sys.argv[1], runtime=runtime)
    status = handle.get_status()
    if not status.is_waiting:
        raise SystemExit(f"{handle.execution_id} waits for nobody: it is {status.status}")
    for approval in status.approvals:
        print(f"{approval.tool} {approval.args}")
    if len(sys.argv) == 4:
        handle.reject(sys.argv[3])
    else:
        handle.approve()

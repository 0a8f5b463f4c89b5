"""Take part in an execution that somebody else started, to its end: `python resume.py EXECUTION_ID`.

Any process on any machine can do this, also while the first one is still alive.
"""

from __future__ import annotations

import sys

from incident_pipeline import report_agent

from perdure import AgentHandle, AgentRuntime

if len(sys.argv) != 2:
    raise SystemExit("usage: python resume.py EXECUTION_ID")

with AgentRuntime() as runtime:
    runtime.serve(report_agent, blocking=False)  # be a worker for its two tools
    handle = AgentHandle(execution_id=sys.argv[1], runtime=runtime)
    result = handle.stream().get_result()  # if it waits for a decision: approve.py, in another terminal
    print(result.status)
    print(result.raise_for_status().output["result"])

"""Run the agent to its end and print where the report is: `python run.py [CSV]`."""

from __future__ import annotations

import sys
from pathlib import Path

from incident_pipeline import report_agent

from perdure import AgentRuntime

csv = Path(sys.argv[1] if len(sys.argv) > 1 else Path(__file__).with_name("incidents.csv")).resolve()

with AgentRuntime() as runtime:
    result = runtime.run(report_agent, f'Create a PDF summary report of "{csv}".')
    print(result.status)
    print(result.raise_for_status().output["result"])

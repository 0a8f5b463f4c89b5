"""Start the agent, print the id of its execution, and carry it on until killed: `python start.py [--premium] [--leak]`.

With --leak it eats memory until the kernel ends it. Do that only inside a memory limit; README.md shows one.
"""

from __future__ import annotations

import sys
from pathlib import Path

from incident_pipeline import report_agent

from perdure import AgentRuntime

csv = Path(__file__).with_name("incidents.csv").resolve()
prompt = f'Create a PDF summary report of "{csv}".'
if "--premium" in sys.argv:
    prompt += " Then have the premium skill pdf-to-markdown read it back."

with AgentRuntime() as runtime:
    handle = runtime.start(report_agent, prompt)
    print(handle.execution_id, flush=True)

    hoard: list[bytearray] = []
    while "--leak" in sys.argv:
        hoard.append(bytearray(8 * 1024 * 1024))
    print(handle.stream().get_result().raise_for_status().output["result"])

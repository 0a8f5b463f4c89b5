"""What the workers of a cluster test serve by name, `cluster_agents:agent`; CLUSTER_WORLD names the world."""

from __future__ import annotations

import os
from pathlib import Path

from crash_agent import Surroundings
from crash_agent import agent as report_agent
from perdure.testing.world_client import World

agent = report_agent(Surroundings(World(os.environ["CLUSTER_WORLD"]), Path(os.environ["CLUSTER_OUT"])))

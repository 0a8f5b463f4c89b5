"""The phases of the long crash run in which the disk, or the system below the server, does not do what it should."""

from __future__ import annotations

import crash_disk_calls
import crash_disk_damage
import crash_disk_full
import crash_disk_power
from crash_phase import Phase

PHASES = (
    Phase("system calls", crash_disk_calls.break_calls, 24, due={crash_disk_calls.POINTS: 300}),
    Phase("power cuts", crash_disk_power.cut_power, 8, due={crash_disk_power.CUTS_MADE: 300}),
    Phase("full disks", crash_disk_full.fill_disks, 4, due={crash_disk_full.FULL: 60}),
    Phase("failing disk", crash_disk_full.fail_calls, 2),
    Phase("damaged files", crash_disk_damage.damage, 2, due={crash_disk_damage.RUNS: 500}),
)
"""In the order they are run. A phase that cannot be run here says so."""

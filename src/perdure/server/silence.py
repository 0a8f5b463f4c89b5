"""What becomes of what a worker holds when its liveness connection closes. Suspicion costs seconds, proof nothing.

A worker on this machine that is dead gave its lock back to the system: its leases, on tasks and on executions, end
at once. One that is stopped, slow or elsewhere keeps what a silent worker is left, and its next heartbeat restores the
rest.
"""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import assert_never

from perdure.core.ports import Clock
from perdure.core.work import ORPHAN_LEASE_MS, WorkerInfo
from perdure.engine.due import Sweep
from perdure.engine.held import Shrink, shrink
from perdure.engine.lanes import ShrinkOwned, shrink_owned
from perdure.engine.sweep import expire_owned, expire_tasks
from perdure.errors import Retryable, StoreFailed, UserError
from perdure.log import get_log
from perdure.server.bridge import Bridge
from perdure.server.sweeps import SWEEP_LIMIT
from perdure.store.place import refuse_network
from perdure.wire.worker_lock import SUFFIX, Fate, default_folder, look, machine

log = get_log(__name__)

BEQUEST_LEASE_MS = 10_000
"""What is left of a dead worker's leases if its outbox holds results: time for a successor to deliver them."""
LOOKS_SECONDS = (0.0, 0.05, 0.2, 0.5)
"""Pauses between looks: the system closes a dead process's files one by one, and its heirs may be reading."""
_AT_ONCE = -1
"""Milliseconds. A lease ends when its last millisecond is over."""


async def fell_silent(bridge: Bridge, clock: Clock, company: str, info: WorkerInfo) -> None:
    """Cut the leases of a worker whose connection closed, as far as what is known of it allows."""
    fate = await _look(info)
    await _cut(bridge, company, info.worker, fate)
    for pause in LOOKS_SECONDS[1:] if fate is Fate.UNKNOWN and info.lock else ():
        await clock.sleep(pause)
        fate = await _look(info)
        if fate is not Fate.UNKNOWN:
            await _cut(bridge, company, info.worker, fate)
            break
    if fate is not Fate.UNKNOWN:
        log.info("worker.died", worker=info.worker, worker_name=info.name, left_results=fate is Fate.BEQUEATHED)
        await _sweep(bridge)


async def bury(bridge: Bridge) -> None:
    """End the leases of workers of this user that died while nobody listened to them. For a server that begins."""
    folder = default_folder()
    try:
        refuse_network(folder)  # a lock there says nothing about another machine's workers
        await _bury(bridge, folder)
    except UserError:
        return
    except Retryable as error:
        log.warning("worker.not_buried", code=error.code, action="none: the leases of dead workers run their time")


async def _bury(bridge: Bridge, folder: Path) -> None:
    for row in await bridge.read(lambda reads: reads.rows("holders")):
        lock = str(folder / (row["worker"] + SUFFIX))
        fate = look(WorkerInfo(row["worker"], "", machine=machine(), lock=lock))
        if fate is not Fate.UNKNOWN:
            await _cut(bridge, row["company"], row["worker"], fate)
            log.info("worker.died", worker=row["worker"], left_results=fate is Fate.BEQUEATHED)


async def _look(info: WorkerInfo) -> Fate:
    # In a thread: the folder may be on a disk that does not answer.
    return await asyncio.to_thread(look, info) if info.lock else Fate.UNKNOWN


async def _cut(bridge: Bridge, company: str, worker: str, fate: Fate) -> None:
    """Leave a worker's leases only as long as its fate allows. Never prolongs one."""
    await bridge.run(shrink, Shrink(company, worker, _left_ms(fate)))
    owned_ms = ORPHAN_LEASE_MS if fate is Fate.UNKNOWN else _AT_ONCE  # what it left to deliver are results of tasks
    await bridge.run(shrink_owned, ShrinkOwned(company, worker, owned_ms))


async def _sweep(bridge: Bridge) -> None:
    """Give what a dead worker held to others now, and not when it is next looked for."""
    for expire in (expire_owned, expire_tasks):
        try:
            await bridge.run(expire, Sweep(SWEEP_LIMIT))
        except StoreFailed:
            raise
        except Exception as error:  # noqa: BLE001 - the sweeps meet it too, and go round a row that breaks them
            log.debug("worker.not_swept", reason=type(error).__name__, action="none: the next sweep is due soon")


def _left_ms(fate: Fate) -> int:
    match fate:
        case Fate.DEAD:
            return _AT_ONCE
        case Fate.BEQUEATHED:
            return BEQUEST_LEASE_MS
        case Fate.UNKNOWN:
            return ORPHAN_LEASE_MS
        case _:
            assert_never(fate)

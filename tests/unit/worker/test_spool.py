"""Large results on the disk: whole whoever writes at the same time, and nothing left of a write that failed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from perdure import failpoints
from perdure.core.blobs import hash_of, reference_in
from perdure.failpoints import InjectedFault
from perdure.worker.spool import Spool

VALUE = "as large as it likes"
KEEPS_IT = (
    "import sys, pathlib; from perdure.worker.spool import Spool; "
    f"Spool(pathlib.Path(sys.argv[1]), 'wrk_1').keep({VALUE!r}, 'the result')"
)


@pytest.fixture(autouse=True)
def _disarmed() -> Iterator[None]:
    yield
    failpoints.arm("")


def test_two_that_give_the_same_at_once_both_keep_it_whole(tmp_path: Path) -> None:
    """As the process of an isolated call does it, stopped before it has synced, and a thread of its worker."""
    spool = Spool(tmp_path, "wrk_1")
    env = {**os.environ, "PERDURE_FAILPOINTS": "spool.before_sync=stop", "PYTHONPATH": os.pathsep.join(sys.path)}
    with subprocess.Popen([sys.executable, "-c", KEEPS_IT, str(tmp_path)], env=env) as first:
        _, status = os.waitpid(first.pid, os.WUNTRACED)
        assert os.WIFSTOPPED(status)
        ref = reference_in(spool.keep(VALUE, "the result"))
        os.kill(first.pid, signal.SIGCONT)
        assert first.wait() == 0
    assert ref is not None
    content = spool.content(ref.hash)
    assert content is not None
    assert hash_of(content.read(0, ref.bytes)) == ref.hash
    assert list(tmp_path.iterdir()) == [spool.path(ref.hash)]


def test_a_write_that_fails_leaves_nothing_on_the_disk(tmp_path: Path) -> None:
    failpoints.arm("spool.before_sync=raise")
    with pytest.raises(InjectedFault):
        Spool(tmp_path, "wrk_1").keep(VALUE, "the result")
    assert list(tmp_path.iterdir()) == []


def test_what_a_dead_worker_had_not_written_to_its_end_goes_with_the_rest(tmp_path: Path) -> None:
    env = {**os.environ, "PERDURE_FAILPOINTS": "spool.before_sync=kill", "PYTHONPATH": os.pathsep.join(sys.path)}
    assert subprocess.run([sys.executable, "-c", KEEPS_IT, str(tmp_path)], env=env).returncode == -signal.SIGKILL
    assert len(list(tmp_path.iterdir())) == 1
    Spool(tmp_path, "wrk_2").clear()
    assert len(list(tmp_path.iterdir())) == 1
    Spool(tmp_path, "wrk_1").clear()
    assert list(tmp_path.iterdir()) == []

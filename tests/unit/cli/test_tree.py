"""What stands at the head of `perdure executions show`: the tree, and the command that gives what is waited for."""

from __future__ import annotations

import io
from dataclasses import replace
from pathlib import Path

from rich.console import Console

from engine_bench import AGENT, COMPANY, SPEC, bench_in
from perdure.cli.story import head
from perdure.core import codec
from perdure.core.items import AwaitSignal, OpenToken, StartChild
from perdure.core.views import ExecutionView
from perdure.engine.query import execution_view


def shown(view: ExecutionView) -> list[str]:
    out = io.StringIO()
    Console(file=out, width=200).print(head(view, view.created_ms))
    return [line.strip() for line in out.getvalue().splitlines()]


def test_the_tree_and_what_ends_each_wait_are_shown(tmp_path: Path) -> None:
    digest = codec.digest(dict(SPEC))
    with bench_in(tmp_path) as bench:
        child, grandchild = (
            StartChild(f"child {n}", "d", f"exe_c{n}", dict(SPEC), AGENT, digest, '"hi"') for n in (1, 2)
        )
        waits = (OpenToken("token yes", "d", "tok_1", "yes", "0" * 64), AwaitSignal("signal go", "d", "go"))
        parent = bench.waiting(child, *waits)
        [held] = bench.claim()
        bench.record(held, grandchild)
        top, below = (
            shown(bench.read(lambda reads, one=one: execution_view(reads, COMPANY, one)))
            for one in (parent.ref.execution, "exe_c1")
        )
    assert "perdure tokens complete tok_1 --value JSON" in top
    assert f"perdure executions signal {parent.ref.execution} 'go' --value JSON" in top
    tree = [line for line in top if line.startswith("└")]
    assert [line.split()[1] for line in tree] == ["exe_c1", "exe_c2"]
    assert "running" in tree[0]
    assert f"begun by {parent.ref.execution}" in below


def test_a_durable_function_is_said_to_call_no_model(tmp_path: Path) -> None:
    with bench_in(tmp_path) as bench:
        execution = bench.waiting().ref.execution
        view = bench.read(lambda reads: execution_view(reads, COMPANY, execution))
    assert "model call" in shown(view)[1]
    assert shown(replace(view, model=""))[1].startswith("started ")

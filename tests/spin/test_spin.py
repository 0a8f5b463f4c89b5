"""The protocols as Spin models: every interleaving keeps the promises, and each rule left out breaks one.

A model says in its first comment what it holds and which operations of the engine it stands for. `MUTANT_name` in its
text is a rule left out.
"""

from __future__ import annotations

import importlib
import pkgutil
import re
import shutil
import subprocess
from pathlib import Path

import pytest

import perdure.engine
from perdure.store.operation import Operation

MODELS = sorted(Path(__file__).parent.glob("*.pml"))
MUTANT = re.compile(r"MUTANT_\w+")

needs_spin = pytest.mark.skipif(
    not (shutil.which("spin") and shutil.which("gcc")), reason="spin or gcc is not installed"
)


def mutants(model: Path) -> list[str]:
    return sorted(set(MUTANT.findall(model.read_text())) - {"MUTANT_"})


def errors_found(model: Path, folder: Path, mutant: str = "") -> tuple[int, str]:
    """Search all interleavings; return how many violations stopped the search, and what it printed."""
    (folder / "model.pml").write_text(model.read_text())
    for command in (
        ["spin", "-a", *([f"-D{mutant}"] if mutant else []), "model.pml"],
        # A search that ends at the first violation is over before an optimised one is compiled.
        ["gcc", "-O0" if mutant else "-O1", "-w", "-DSAFETY", "-DNOCLAIM", "-o", "pan", "pan.c"],
    ):
        made = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=120, check=False)
        assert made.returncode == 0, made.stdout + made.stderr
    found = subprocess.run(
        [folder / "pan", "-m100000"], cwd=folder, capture_output=True, text=True, timeout=300, check=False
    ).stdout
    assert "max search depth too small" not in found, found
    errors = re.search(r"errors: (\d+)", found)
    assert errors, found
    return int(errors[1]), found


@needs_spin
@pytest.mark.parametrize("model", MODELS, ids=lambda model: model.stem)
def test_no_interleaving_breaks_a_promise(model: Path, tmp_path: Path) -> None:
    errors, found = errors_found(model, tmp_path)
    assert errors == 0, found


@needs_spin
@pytest.mark.parametrize(
    ("model", "mutant"), [(model, one) for model in MODELS for one in mutants(model)], ids=lambda one: Path(one).stem
)
def test_a_rule_left_out_is_found(model: Path, mutant: str, tmp_path: Path) -> None:
    errors, found = errors_found(model, tmp_path, mutant)
    assert errors > 0, f"{mutant} passes: the model does not see what the rule is for.\n{found}"


def operations() -> set[str]:
    """The engine's operations, by name."""
    modules = [
        importlib.import_module(f"perdure.engine.{module.name}")
        for module in pkgutil.iter_modules(perdure.engine.__path__)
    ]
    return {name for module in modules for name, value in vars(module).items() if isinstance(value, Operation)}


@pytest.mark.parametrize("model", MODELS, ids=lambda model: model.stem)
def test_models_speak_of_the_engines_operations(model: Path) -> None:
    text = model.read_text()
    named = re.search(r"\* Actions: ([\w ]+)", text)
    assert named, f"{model.name} does not say which operations it stands for"
    body = text.split("*/", 1)[1]
    for action in named[1].split():
        assert action in operations(), f"{model.name}: the engine has no operation {action}"
        assert re.search(rf"/\* {action}\b", body), f"{model.name} has no step {action}"

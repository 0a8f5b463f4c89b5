"""Who may import whom. Imports inside functions and under TYPE_CHECKING count: a layer is what a file knows of."""

from __future__ import annotations

import tomllib

import source_tree
from source_tree import fail_on, imports_of

EDGE = "errors log core version failpoints system wire file_lock lasting"
WHOLE = f"{EDGE} store agent models toolbox client worker server"
LAYERS: dict[str, str] = {
    "errors": "",
    "log": "",
    "failpoints": "",
    "file_lock": "",
    "lasting": "",
    "version": "",
    "core": "errors",
    "ledger": "errors core log",
    "system": "core",
    "store": "errors log core version failpoints file_lock lasting",
    "engine": "errors core store",
    "flow": "errors core",
    "models": "errors core failpoints",
    "agent": "errors core flow models.port models.recorded models.retry",
    "toolbox": "errors core system agent version log",
    "rooms": "errors core flow agent models.port models.recorded models.retry",
    "wire": "errors core file_lock lasting",
    "doors": "errors log core version wire",
    "client": EDGE,
    "worker": f"{EDGE} service_loop client agent flow mailbox",
    "server": f"{EDGE} store engine flow agent rooms doors models toolbox worker service_loop mailbox",
    "testing": f"{WHOLE} engine flow service_loop shared_store",
    "service_loop": "errors",
    "mailbox": "",
    "upkeep": "errors core version failpoints system file_lock lasting store engine",
    "joined": "errors core wire",
    "joined_source": "core joined",
    "shared_store": f"{WHOLE} engine service_loop joined joined_source",
    "database": "server store",
    "runtime": f"{WHOLE} engine service_loop shared_store",
    "__init__": "errors core version agent client flow toolbox runtime",
    "__main__": "cli",
    "demo": f"{WHOLE} rooms.verify testing runtime __init__",
    "cli": f"{WHOLE} service_loop doors rooms.verify testing runtime shared_store upkeep database demo __init__",
}
"""Every package and module of the top level, and what it may import beside itself. `a.b` allows one module of `a`."""


def test_every_package_has_a_place_in_the_layers() -> None:
    units = {module.name.split(".")[1] for module in source_tree.library() if module.name.count(".")}
    fail_on(f"src/perdure/{unit} has no line in LAYERS" for unit in sorted(units - LAYERS.keys()))


def test_every_package_is_typed_strictly() -> None:
    settings = tomllib.loads((source_tree.ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    strict = set(settings["tool"]["basedpyright"]["strict"])
    packages = {module.inner.split("/")[0] for module in source_tree.library() if module.name and "/" in module.inner}
    fail_on(
        f"src/perdure/{name} is not in basedpyright's strict list"
        for name in packages
        if f"src/perdure/{name}" not in strict
    )


def test_imports_point_down() -> None:
    fail_on(
        f"{module.at(found.node)}: {unit} may not import {found.target}"
        for module in source_tree.library()
        if module.name
        for unit in [unit_of(module)]
        for found in imports_of(module)
        if not may_import(unit, found.target)
    )


def test_layers_have_no_cycle() -> None:
    def below(unit: str, path: tuple[str, ...] = ()) -> None:
        assert unit not in path, " imports ".join((*path, unit))
        for lower in LAYERS[unit].split():
            below(lower.split(".")[0], (*path, unit))

    for unit in LAYERS:
        below(unit)


def test_programs_stand_alone() -> None:
    fail_on(
        f"{module.at(found.node)}: a skill's script is a program of its own and may not import {found.target}"
        for module in source_tree.library()
        if not module.name
        for found in imports_of(module)
        if found.target.split(".")[0] == "perdure"
    )


def unit_of(module: source_tree.Module) -> str:
    parts = module.name.split(".")
    return parts[1] if len(parts) > 1 else "__init__"


def may_import(unit: str, target: str) -> bool:
    parts = target.split(".")
    if parts[0] != "perdure":
        return True
    # `from perdure import X` names a module of ours or, if there is none, something that the package exports
    name = parts[1] if len(parts) > 1 and exists(parts[1]) else "__init__"
    allowed = LAYERS.get(unit, "").split()
    return name in {unit, *allowed} or ".".join(parts[1:3]) in allowed


def exists(unit: str) -> bool:
    return (source_tree.PACKAGE / unit).is_dir() or (source_tree.PACKAGE / f"{unit}.py").is_file()

"""The web UI: what it is built against is what the API is, and in a browser it does what it says."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
UI = ROOT / "ui"
BROWSERS = ("/usr/bin/chromium", "/usr/bin/chromium-browser", "/usr/bin/google-chrome")


def test_the_ui_is_built_against_the_api_that_there_is() -> None:
    ran = subprocess.run([sys.executable, ROOT / "tools" / "openapi.py", "--check"], capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr


def test_the_ui_locks_its_packages_without_addresses() -> None:
    lock = json.loads((UI / "package-lock.json").read_text(encoding="utf-8"))
    facts = [one for place, one in lock["packages"].items() if place and not one.get("inBundle")]  # in another's
    assert all(one["integrity"].startswith("sha512-") for one in facts)
    assert not [one for one in facts if "resolved" in one]
    assert "ignore-scripts=true" in (UI / ".npmrc").read_text(encoding="utf-8").split()


@pytest.mark.crash
@pytest.mark.timeout(700)
def test_the_ui_in_a_browser(tmp_path: Path) -> None:
    """All of `./dev ui test` but the build of what is built already."""
    node, browser = shutil.which("node"), next(filter(os.path.exists, BROWSERS), None)
    if node is None or shutil.which("npm") is None or browser is None:
        pytest.skip("it needs Node with npm, and Chromium")
    if not (UI / "node_modules").exists():
        install = ["npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund"]
        subprocess.run(install, cwd=UI, check=True, capture_output=True, timeout=200)
    subprocess.run(["npm", "run", "build"], cwd=UI, check=True, capture_output=True, timeout=200)
    for command in (["npm", "run", "test"], [node, "e2e/run.mjs"]):
        surroundings = os.environ | {"PYTHON": sys.executable, "PYTHONPATH": str(ROOT / "src")}
        ran = subprocess.run(command, cwd=UI, env=surroundings, capture_output=True, text=True, timeout=500)
        assert ran.returncode == 0, ran.stdout[-8000:] + ran.stderr[-4000:]

"""The model of the extra `vectors`: what its vectors are good for, how they are written, that it asks no network."""

from __future__ import annotations

import base64
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from perdure.core.ports import Embedder
from perdure.core.room_ranking import NEAR
from perdure.models import vectors
from perdure.models.vectors import installed_embedder

QUESTION = "how expensive is the vehicle"
NEAR_IT, FAR = "the price of the car", "soup is served in the kitchen at noon"


@pytest.fixture(scope="module")
def model() -> Embedder:
    found = installed_embedder()
    if found is None:
        pytest.skip("the extra `vectors` is not installed")
    return found


def test_what_means_the_same_is_near_and_what_does_not_is_not(model: Embedder) -> None:
    near, far = model.likeness(QUESTION, model.vectors([NEAR_IT, FAR]))
    assert near >= NEAR > far
    assert model.likeness(NEAR_IT, model.vectors([NEAR_IT]))[0] == pytest.approx(1, abs=0.01)


def test_many_vectors_are_compared_in_their_order(model: Embedder) -> None:
    texts = [FAR, NEAR_IT, QUESTION] * 3_000
    made = model.vectors(texts[:3]) * 3_000
    found = model.likeness(QUESTION, made)
    assert len(found) == 9_000
    assert list(found[:3]) == list(found[-3:])
    assert model.likeness(QUESTION, []) == []


def test_a_text_without_anything_to_know_has_no_vector_and_any_text_is_taken(model: Embedder) -> None:
    assert model.vectors([""]) == [""]
    assert list(model.likeness("", model.vectors([FAR]))) == [0.0]
    for text in ("\U0001f389", "橋", "a" * 200_000, "</s> <unk>", "\u202e", "é" * 50, "1 2 3"):
        [made] = model.vectors([text])
        assert not made or len(base64.b64decode(made)) == 258


@pytest.mark.parametrize("bad", ["AAAA", "%" * 344, "é" * 344, "A" * 343, "A" * 348, ""])
def test_what_is_no_vector_is_like_nothing_and_the_others_are_compared(model: Embedder, bad: str) -> None:
    near = model.vectors([NEAR_IT])
    like = model.likeness(QUESTION, [bad, *near, bad])
    assert list(like) == pytest.approx([0, *model.likeness(QUESTION, near), 0], abs=0.001)


def test_it_reads_two_files_runs_no_code_of_the_package_and_opens_no_connection(
    model: Embedder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In a process of its own, in which every socket is refused."""
    program = f"""
import logging, socket, sys
def refuse(*_a, **_k): raise SystemExit("it wanted the network")
socket.socket = socket.create_connection = socket.getaddrinfo = refuse
from perdure.models.vectors import installed_embedder
assert "numpy" not in sys.modules, "nothing is loaded before it is used"
found = installed_embedder()
assert "numpy" not in sys.modules
found.vectors([{FAR!r}])
assert "wordllama" not in sys.modules and "requests" not in sys.modules
assert not logging.getLogger().handlers
"""
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False, timeout=60)
    assert ran.returncode == 0, ran.stderr
    monkeypatch.setattr(socket, "socket", None)
    assert model.vectors([FAR]) == model.vectors([FAR])


def test_without_the_extra_there_is_none(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(vectors, "_NEEDED", ("json", "no_such_package_is_there"))
    assert installed_embedder() is None
    monkeypatch.setattr(vectors, "_NEEDED", ("json",))
    assert installed_embedder() is None, "a package without the model's files is another one"

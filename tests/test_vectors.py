"""Every conformance vector, against the pure core and against the naive restatement of the rules."""

from __future__ import annotations

from typing import Any

import pytest
from folding import fold_all, load_vectors, settings_of
from naive import NaiveRun

VECTORS = load_vectors()


def test_no_vector_is_missing() -> None:
    assert len(VECTORS) == 315


@pytest.mark.parametrize("vector", VECTORS, ids=lambda vector: str(vector["name"]))
def test_the_core_decides_as_the_vector_says(vector: dict[str, Any]) -> None:
    decisions = fold_all(vector["events"], settings_of(vector["config"]))

    assert decisions == vector["expect"]


@pytest.mark.parametrize("vector", VECTORS, ids=lambda vector: str(vector["name"]))
def test_the_naive_rules_decide_as_the_vector_says(vector: dict[str, Any]) -> None:
    run = NaiveRun(vector["config"])
    decided = [(at, run.fold(event)) for at, event in enumerate(vector["events"])]

    assert [{"at": at} | decision for at, decision in decided if decision] == vector["expect"]

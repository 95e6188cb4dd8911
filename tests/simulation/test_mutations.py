"""That the deliberate breakages still fit the sources, and that one of them is noticed; `make mutations` tries all."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.simulation.mutations import MUTATIONS


@pytest.mark.parametrize("name", MUTATIONS)
def test_it_changes_the_source(name: str) -> None:
    mutation = MUTATIONS[name]
    spec = importlib.util.find_spec(mutation.module)
    assert spec is not None
    assert spec.origin is not None
    # A compiled module lies beside its source.
    source = Path(spec.origin).with_name(mutation.module.rpartition(".")[2] + ".py").read_text()
    compile(mutation.mutated(source), mutation.module, "exec")


def test_a_mutated_producer_breaks_a_promise() -> None:
    command = [sys.executable, "-m", "tests.simulation", "--seeds=50", "--processes=1", "--stop"]
    command.append("--mutation=memory is released twice")
    environment = os.environ | {"AIOPROD_NO_EXT": "1"}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "bytes were released twice" in done.stdout

from __future__ import annotations

from collections.abc import Callable

import pytest

from benchmarks.hot import SUITE


@pytest.mark.parametrize("function", SUITE.values(), ids=list(SUITE))
def test_each_hot_function_can_be_measured(function: Callable[[int], float]) -> None:
    assert function(3) > 0

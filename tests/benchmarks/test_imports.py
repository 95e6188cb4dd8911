from __future__ import annotations

from benchmarks.imports import IMPORTS, Cost, cost_of, table


def test_an_import_is_measured() -> None:
    cost = cost_of("asyncio")
    assert cost.modules > 20
    assert cost.resident_mb > 1
    assert min(cost.wall_ms, cost.cpu_ms) > 0


def test_medians_are_compared_with_the_peer() -> None:
    costs = {name: [Cost(10.0, 8.0, 20.0, 50)] * 3 for name in IMPORTS}
    costs["aioprod"] = [Cost(15.0, 10.0, 30.0, 60), Cost(100.0, 100.0, 100.0, 100), Cost(14.0, 9.0, 29.0, 59)]
    rows = {row[0]: row[1:] for row in table(costs).rows}
    assert rows["aioprod"] == (15.0, 10.0, 30.0, 60, 1.5, 1.25)
    assert rows["aiokafka"] == (10.0, 8.0, 20.0, 50, 1.0, 1.0)

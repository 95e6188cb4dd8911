"""Run `programs/pipeline.py` in a session, and check its results with an independent consumer."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from aioprod.testing import KafkaCluster
from integration.spark.environments import ROOT, run_program
from integration.spark.topics import consumed, new_topic

__all__ = ["check_pipeline"]

ROWS = {(f"key-{number}".encode(), str(number).encode()) for number in range(2000)}


def check_pipeline(
    command: Sequence[str | Path], kind: str, cluster: KafkaCluster, folder: Path, path: Sequence[Path] = (ROOT,)
) -> dict[str, Any]:
    """Run it with `command`, in front of its name, and return what it told."""
    topics = new_topic(cluster, 4), new_topic(cluster, 4)
    program = ROOT / "integration" / "spark" / "programs" / "pipeline.py"
    said = run_program([*command, program, kind, cluster.bootstrap_servers, *topics, folder], path)
    told: dict[str, Any] = json.loads(said.splitlines()[-1])
    for topic in topics:
        rows = consumed(cluster, topic)
        assert len(rows) == len(ROWS)
        assert {(key, value) for _, _, key, value, *_ in rows} == ROWS
    assert told["tasks"] == {str(partition): [partition % 3] for partition in range(12)}
    assert told["read by a batch"] == told["read by a stream"] == len(ROWS)
    assert told["remote"] == (kind == "connect")
    return told

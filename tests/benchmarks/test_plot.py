"""The plot of the results: who is beside whom, and where the other one was cheaper."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("matplotlib")

from matplotlib.figure import Figure

from benchmarks import plot
from benchmarks.report import RESULTS

MEASURED: dict[str, Any] = json.loads((RESULTS / "results.json").read_text())


def drawn(results: dict[str, Any], path: Path, monkeypatch: pytest.MonkeyPatch) -> Figure:
    """The figure that becomes the picture."""
    made: list[Figure] = []

    def figure(**options: Any) -> Figure:
        made.append(Figure(**options))
        return made[0]

    monkeypatch.setattr(plot, "Figure", figure)
    plot.plot(results, path)
    assert path.read_bytes().startswith(b"\x89PNG")
    return made[0]


def told(figure: Figure) -> list[str]:
    return [text.get_text() for text in figure.legends[0].get_texts()]


def test_each_client_has_its_colour(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    figure = drawn(MEASURED, tmp_path / "plot.png", monkeypatch)
    found = [plot.OURS, *(color for color, _ in plot.THEIRS.values())]
    drawn_colors = {line.get_color() for line in figure.axes[0].get_lines() if line.get_linestyle() == "None"}
    assert drawn_colors <= set(found)
    names = [name for name, color in zip(["aioprod", *plot.THEIRS], found, strict=True) if color in drawn_colors]
    assert told(figure)[: len(names)] == names
    assert names[:3] == ["aioprod", "aiokafka", "confluent-kafka"]


def test_a_row_in_which_we_took_more_stands_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    slower = copy.deepcopy(MEASURED)
    broker = next(iter(slower["brokers"]))
    for entry in slower["entries"]:
        if (entry["broker"], entry["row"], entry["contender"]) == (broker, "tasks", "aioprod"):
            for run in entry["runs"]:
                run["cpu_us"] *= 100
    figure = drawn(slower, tmp_path / "plot.png", monkeypatch)
    first = figure.axes[0]
    assert [line.get_color() for line in first.get_lines()].count(plot.MORE) == 1
    assert [text.get_text() for text in first.texts if text.get_color() == plot.MORE] == ["0.05x"]
    assert told(figure)[-1] == "aioprod takes more"

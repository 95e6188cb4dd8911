"""What the picture of an assignment says: its title, its legend, its labels."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pytest

pytest.importorskip("matplotlib")

from matplotlib.axes import Axes
from matplotlib.colors import to_rgba
from matplotlib.figure import Figure

from aioprod.cli import assign, picture
from aioprod.console.pictures import COLORS
from aioprod.group.assignors import Balance, Comparison, balance, compare
from aioprod.types import TopicPartition


def assigned(members: Mapping[str, Sequence[int]], topic: str = "orders") -> dict[str, list[TopicPartition]]:
    return {member: [TopicPartition(topic, index) for index in indexes] for member, indexes in members.items()}


def drawn(found: Balance | Comparison, monkeypatch: pytest.MonkeyPatch) -> Axes:
    """The axes of the picture."""
    made: list[Axes] = []

    def kept(draw: Any, **_: Any) -> bytes:
        made.append(Figure(layout="constrained").subplots())
        draw(made[0])
        return b""

    monkeypatch.setattr(picture, "picture", kept)
    picture.picture_of(found, "png", assign._title("sticky", found))
    return made[0]


def legend(axes: Axes) -> list[str]:
    found = axes.get_legend()
    assert found is not None
    return [text.get_text() for text in found.get_texts()]


TWO = assigned({"a": [0, 1, 2], "b": [3, 4]})
THREE = assigned({"a": [0, 1], "b": [3, 4], "c": [2]})


def test_the_title_says_what_moved(monkeypatch: pytest.MonkeyPatch) -> None:
    axes = drawn(compare(TWO, THREE), monkeypatch)
    assert axes.figure.get_suptitle() == "sticky: 1 of 5 partitions moved, 2 members before and 3 after"
    alone = drawn(balance(assigned({"a": [0, 1]})), monkeypatch)
    assert alone.figure.get_suptitle() == "sticky: 2 partitions, 1 member"


def test_the_legend_is_in_the_colours_of_the_bars(monkeypatch: pytest.MonkeyPatch) -> None:
    axes = drawn(compare(TWO, THREE), monkeypatch)
    assert legend(axes) == ["orders", "upper, paler bar: before", "hatched: new to the member"]
    shown = axes.get_legend()
    assert shown is not None
    bars = {patch.get_facecolor() for patch in axes.patches}
    assert {patch.get_facecolor() for patch in shown.get_patches()} == bars
    assert bars == {to_rgba(COLORS[0], 1.0), to_rgba(COLORS[0], picture._BEFORE_ALPHA)}


def test_pale_bars_have_dark_labels(monkeypatch: pytest.MonkeyPatch) -> None:
    axes = drawn(compare(TWO, THREE), monkeypatch)
    colors = [text.get_color() for text in axes.texts]
    assert colors == [picture._DARK] * 5 + ["white"] * 5


def test_the_line_of_many_members_is_inside_the_frame(monkeypatch: pytest.MonkeyPatch) -> None:
    many = assigned({f"m{index}": [index] for index in range(picture._MEMBERS_MAX + 1)})
    axes = drawn(balance(many), monkeypatch)
    assert axes.get_ylim()[1] > 1
    assert legend(axes) == ["61 members, largest/mean 1.00"]
    nobody: dict[str, list[TopicPartition]] = {member: [] for member in many}
    assert drawn(balance(nobody), monkeypatch).get_ylim() == (0, 1)


def test_partitions_are_counted_in_whole_numbers(monkeypatch: pytest.MonkeyPatch) -> None:
    axes = drawn(balance(TWO), monkeypatch)
    assert all(float(tick).is_integer() for tick in axes.get_xticks())

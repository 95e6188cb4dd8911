"""Pictures of assignments: a bar for each member, in colours by topic; for large groups the members' loads in order."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial
from itertools import groupby
from typing import TYPE_CHECKING, Final, NamedTuple

from aioprod.console.pictures import COLORS, picture, plain
from aioprod.group.assignors import Balance, Comparison
from aioprod.types import TopicPartition

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["picture_of"]

_MEMBERS_MAX: Final = 60
"""More bars than these can't be read."""

_SEGMENTS_MAX: Final = 600
"""With more partitions than these, a member has one segment for all of a topic."""

_NAME_MAX: Final = 24
_OTHERS: Final = len(COLORS) - 1
_MOVED: Final = "//////"
_BEFORE_ALPHA: Final = 0.4
_DARK: Final = "#1d2530"


class _Segment(NamedTuple):
    left: float
    width: float
    color: int
    is_moved: bool
    label: str


def picture_of(found: Balance | Comparison, kind: str, title: str) -> bytes:
    """A picture of an assignment, or of two, as a file of this kind; needs matplotlib."""
    after = found if isinstance(found, Balance) else found.after
    shown = {"": after} if isinstance(found, Balance) else {"before": found.before, "after": after}
    members = list(dict.fromkeys(member for balance in reversed(shown.values()) for member in balance.owned))
    if len(members) > _MEMBERS_MAX:
        return picture(partial(_curves, shown, title), height_in=4.0, kind=kind)
    new = {} if isinstance(found, Balance) else {move.partition for move in found.moved} | found.new.keys()
    height_in = 1.6 + 0.26 * len(members) * len(shown)
    return picture(partial(_bars, shown, members, frozenset(new), title), height_in=height_in, kind=kind)


def _head(axes: Axes, title: str) -> None:
    """The title, above the legend, which stands above the axes so that it covers nothing."""
    axes.figure.suptitle(plain(title), x=0.01, ha="left", fontsize=10, color=_DARK)


def _curves(shown: Mapping[str, Balance], title: str, axes: Axes) -> None:
    from matplotlib.ticker import MaxNLocator

    for index, (name, balance) in enumerate(shown.items()):
        loads = sorted(balance.loads.values(), reverse=True)
        said = f"{name}: " if name else ""
        axes.step(
            range(1, len(loads) + 1),
            loads,
            where="mid",
            color=COLORS[len(shown) - 1 - index],
            linestyle="-" if index == len(shown) - 1 else "--",
            label=f"{said}{len(loads):,} members, largest/mean {balance.skew:.2f}",
        )
    axes.set_xlabel("members, from the busiest to the idlest")
    axes.set_ylabel(_measure(shown))
    axes.yaxis.set_major_locator(MaxNLocator("auto", steps=[1, 2, 5, 10], integer=not _is_weighted(shown)))
    # A line on the frame would be cut in half.
    axes.set_ylim(0, 1.08 * max(balance.largest for balance in shown.values()) or 1)
    axes.legend(ncols=2, loc="lower left", bbox_to_anchor=(0, 1))
    _head(axes, title)


def _bars(
    shown: Mapping[str, Balance], members: list[str], new: frozenset[TopicPartition], title: str, axes: Axes
) -> None:
    from matplotlib.legend_handler import HandlerTuple
    from matplotlib.patches import Patch
    from matplotlib.ticker import MaxNLocator

    colors = _colors(shown)
    labelled = max(balance.largest for balance in shown.values()) / 40
    height = 0.8 / len(shown)
    for index, balance in enumerate(shown.values()):
        is_last = index == len(shown) - 1
        for row, member in enumerate(members):
            place = row - 0.4 + height * (index + 0.5)
            for segment in _segments(balance, member, colors, new if is_last else frozenset()):
                _draw(segment, place, height, 1.0 if is_last else _BEFORE_ALPHA, axes)
                if segment.width > labelled:
                    _label(segment, place, "white" if is_last else _DARK, axes)
    axes.set_yticks(range(len(members)), [plain(_cut(member)) for member in members])
    axes.invert_yaxis()
    axes.margins(y=0.01)
    axes.grid(visible=False)
    axes.set_xlabel(_measure(shown))
    axes.xaxis.set_major_locator(MaxNLocator("auto", steps=[1, 2, 5, 10], integer=not _is_weighted(shown)))
    used = list(dict.fromkeys(colors.values()))
    legend: dict[str, Patch | tuple[Patch, ...]] = {
        label: Patch(color=COLORS[color]) for label, color in _legend(colors)
    }
    # In the colours of the bars, so that they are found again.
    if len(shown) > 1:
        legend["upper, paler bar: before"] = tuple(Patch(color=COLORS[color], alpha=_BEFORE_ALPHA) for color in used)
    if new:
        legend["hatched: new to the member"] = tuple(
            Patch(facecolor=COLORS[color], edgecolor="white", hatch=_MOVED)
            for color in sorted({colors[tp.topic] for tp in new})
        )
    axes.legend(
        legend.values(),
        legend.keys(),
        ncols=4,
        loc="lower left",
        bbox_to_anchor=(0, 1),
        handler_map={tuple: HandlerTuple(ndivide=None, pad=0)},
    )
    _head(axes, title)


def _draw(segment: _Segment, place: float, height: float, alpha: float, axes: Axes) -> None:
    axes.barh(
        place,
        segment.width,
        height,
        segment.left,
        color=COLORS[segment.color],
        alpha=alpha,
        edgecolor="white",
        linewidth=0.6,
        hatch=_MOVED if segment.is_moved else None,
    )


def _label(segment: _Segment, place: float, color: str, axes: Axes) -> None:
    middle = segment.left + segment.width / 2
    label = axes.text(middle, place, segment.label, ha="center", va="center_baseline", color=color, fontsize=7)
    if segment.is_moved:
        label.set_bbox({"facecolor": COLORS[segment.color], "edgecolor": "none", "pad": 1.5})


def _segments(
    balance: Balance, member: str, colors: Mapping[str, int], new: frozenset[TopicPartition]
) -> Iterator[_Segment]:
    owned = balance.owned.get(member, ())
    left = 0.0
    if len(balance.sizes) <= _SEGMENTS_MAX:
        for tp in owned:
            width = balance.sizes[tp]
            yield _Segment(left, width, colors[tp.topic], tp in new, str(tp.partition))
            left += width
        return
    kinds = sorted((colors[tp.topic], tp in new, tp) for tp in owned)
    for (color, is_moved), same in groupby(kinds, key=lambda kind: kind[:2]):
        width = sum(balance.sizes[tp] for *_, tp in same)
        yield _Segment(left, width, color, is_moved, "")
        left += width


def _colors(shown: Mapping[str, Balance]) -> dict[str, int]:
    """Topics with most load have a colour of their own, the others share the last one."""
    loads: dict[str, float] = {}
    for balance in shown.values():
        for tp, size in balance.sizes.items():
            loads[tp.topic] = loads.get(tp.topic, 0) + size
    ordered = sorted(loads, key=lambda topic: -loads[topic])
    return {topic: min(index, _OTHERS) for index, topic in enumerate(ordered)}


def _legend(colors: Mapping[str, int]) -> Iterator[tuple[str, int]]:
    for color, same in groupby(colors.items(), key=lambda each: each[1]):
        topics = [plain(_cut(topic)) for topic, _ in same]
        yield (topics[0] if len(topics) == 1 else f"{len(topics)} other topics"), color


def _measure(shown: Mapping[str, Balance]) -> str:
    return "load of a member" if _is_weighted(shown) else "partitions of a member"


def _is_weighted(shown: Mapping[str, Balance]) -> bool:
    return any(balance.is_weighted for balance in shown.values())


def _cut(name: str) -> str:
    return name if len(name) <= _NAME_MAX else f"{name[:_NAME_MAX]}..."

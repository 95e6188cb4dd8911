"""What is said of a load at its end: text, a document, a picture."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from aioprod import __version__
from aioprod._build import COMPILED
from aioprod._words import bytes_of
from aioprod.cli.perf.load import Load
from aioprod.cli.perf.meter import Meter, Second
from aioprod.config import ProducerConfig, settings_of
from aioprod.console.pictures import picture, plain
from aioprod.console.tables import Part, Table

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["comparison", "document", "latency_picture", "parts"]

_HEIGHT_IN: Final = 3.6

_LIMITED_RATIO: Final = 0.5
"""A load is limited by the round trip when batches have waited for a place in flight for more of the time than this."""


def document(config: ProducerConfig, load: Load, meter: Meter, *, e2e: bool, interrupted: bool) -> dict[str, Any]:
    """The report for JSON; settings that were given are in it, secrets hidden."""
    table = settings_of(type(config))
    settings = {
        name.replace("_", "."): _said(table[name].secret, getattr(config, name)) for name in sorted(config.explicit)
    }
    given = load.to_dict() | {"e2e": e2e, "settings": settings}
    build = "compiled" if COMPILED else "interpreted"
    return {"config": given, "aioprod": __version__, "build": build, "interrupted": interrupted, **meter.document()}


def _said(is_secret: bool, value: object) -> object:
    """A setting as JSON has it; an object, such as a partitioner, by its name."""
    if is_secret:
        return "[hidden]"
    if isinstance(value, tuple):
        return [_said(False, each) for each in value]
    return value if value is None or isinstance(value, bool | int | float | str) else str(value)


def parts(found: Mapping[str, Any]) -> list[Part]:
    """The report as text: the line of Kafka's kafka-producer-perf-test, and what that does not say."""
    latency = found["latency_ms"]
    said: list[Part] = []
    said.append(
        f"{found['records']:,} records {'read back' if found['config']['e2e'] else 'sent'}, "
        f"{found['records_per_s']:,.1f} records/sec ({found['mb_per_s']:.2f} MB/sec), "
        f"{latency['avg']:.2f} ms avg latency, {latency['max']:.2f} ms max latency, {latency['p50']:.2f} ms 50th, "
        f"{latency['p95']:.2f} ms 95th, {latency['p99']:.2f} ms 99th, {latency['p99.9']:.2f} ms 99.9th."
    )
    gap = "" if found["loop_gap_ms"] is None else f", the event loop was busy for {found['loop_gap_ms']:.1f} ms at most"
    memory = "" if found["peak_rss_mb"] is None else f", {found['peak_rss_mb']:,.0f} MB of memory at most"
    said.append(f"In {found['seconds']:.1f} s this process took {found['cpu_s']:.2f} s of CPU time{memory}{gap}.")
    if found["round_trip"] is not None and found["round_trip"]["batch_bytes_avg"]:
        said.append(_round_trip(found["round_trip"]))
    if found["config"]["rate"] is None and not found["config"]["e2e"]:
        said.append(
            "Sent as fast as possible: the latencies are mostly the time in this client's own buffer. Give the "
            "--rate that you expect to measure those of the brokers."
        )
    if found["failed"]:
        errors = ", ".join(f"{count:,} x {name}" for name, count in found["errors"].items())
        said.append(f"{found['failed']:,} records failed: {errors}.")
    return said


def _round_trip(found: Mapping[str, Any]) -> str:
    limited = " The round trip limits it." if found["full_ratio"] > _LIMITED_RATIO else ""
    return (
        f"Half of the requests were answered within {found['request_p50_ms']:.1f} ms, with batches of "
        f"{bytes_of(found['batch_bytes_avg'])} on average; for {found['full_ratio']:.0%} of the time a batch waited "
        f"for a place in flight.{limited}"
    )


def comparison(found: Mapping[str, Mapping[str, Any]], rate: float | None) -> Part:
    """A table of clients by name; the ratios are to the first one."""
    says = "Each in a process of its own, one after the other."
    if rate is None:
        says += " As fast as possible, latencies are those of each client's own buffer: compare them at a --rate."
    first = next(iter(found.values()))
    rows: list[tuple[object, ...]] = []
    for name, one in found.items():
        latency = one["latency_ms"]
        rows.append(
            (
                f"{name} {one['version']}",
                round(one["records_per_s"]),
                _ratio(one["records_per_s"], first["records_per_s"]),
                one["mb_per_s"],
                latency["p50"],
                latency["p99"],
                latency["max"],
                _cpu_us(one),
                _ratio(_cpu_us(one), _cpu_us(first)),
                "-" if one["peak_rss_mb"] is None else round(one["peak_rss_mb"]),
                one["failed"],
            )
        )
    headers = (
        "client",
        "records/s",
        "ratio",
        "MB/s",
        "p50 ms",
        "p99 ms",
        "max ms",
        "CPU us/record",
        "ratio",
        "MB",
        "failed",
    )
    return Table("Comparison", says, headers, rows)


def _cpu_us(one: Mapping[str, Any]) -> float:
    return round(float(one["cpu_s"]) / one["records"] * 1e6, 2) if one["records"] else 0.0


def _ratio(value: float, first: float) -> object:
    return round(value / first, 2) if first else "-"


def latency_picture(seconds: Sequence[Second], title: str, kind: str) -> bytes:
    """The latencies of each second, on a scale of powers of ten; needs matplotlib."""
    return picture(partial(_draw, seconds, title), height_in=_HEIGHT_IN, kind=kind)


def _draw(seconds: Sequence[Second], title: str, axes: Axes) -> None:
    at = [second.at for second in seconds]
    marker = "o" if len(at) == 1 else ""
    for name, values in (
        ("max", [second.max for second in seconds]),
        ("p99", [second.p99 for second in seconds]),
        ("p50", [second.p50 for second in seconds]),
    ):
        axes.plot(at, values, label=name, marker=marker)
    if seconds:
        axes.set_yscale("log")
        axes.legend(ncols=3, loc="lower left", bbox_to_anchor=(0, 1))
    axes.set_xlabel("s")
    axes.set_ylabel("latency in ms")
    axes.figure.suptitle(plain(title), x=0.01, ha="left", fontsize=10)

"""A load that runs, as people see it: what is known now where that can be redrawn, else a line every five seconds."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from importlib.util import find_spec
from typing import Any, Final, TextIO

from aioprod.cli.perf.meter import MIB, Meter
from aioprod.cli.progress import Progress
from aioprod.console.terminal import redraws

__all__ = ["Window", "on_terminal", "shown"]

_LIVE_S: Final = 0.5
_LINE_S: Final = 5.0


class Window:
    """What was done since the last look."""

    def __init__(self, meter: Meter) -> None:
        self._meter = meter
        self._before = (0.0, 0, 0, 0.0, 0.0)
        self._seconds = 0

    def line(self) -> str:
        """As Kafka's own kafka-producer-perf-test prints it."""
        rates = self.rates()
        return (
            f"{rates['records']:,.0f} records sent, {rates['records_per_s']:,.1f} records/sec "
            f"({rates['mb_per_s']:.2f} MB/sec), {rates['avg_ms']:.1f} ms avg latency, "
            f"{rates['max_ms']:.1f} ms max latency."
        )

    def rates(self) -> dict[str, float]:
        """Records and MB a second, the latencies in ms, the CPU time as a part of one processor."""
        meter = self._meter
        now = (meter.elapsed_s, meter.delivered, meter.bytes, meter.latency.total, meter.cpu_s)
        elapsed_s, records, size, latency_ms, cpu_s = (
            after - before for after, before in zip(now, self._before, strict=True)
        )
        self._before = now
        longest = max((second.max for second in meter.seconds[self._seconds :]), default=meter.latency.max)
        self._seconds = len(meter.seconds)
        return {
            "records": records,
            "records_per_s": records / elapsed_s if elapsed_s > 0 else 0.0,
            "mb_per_s": size / MIB / elapsed_s if elapsed_s > 0 else 0.0,
            "avg_ms": latency_ms / records if records else 0.0,
            "max_ms": longest,
            "cpu": cpu_s / elapsed_s if elapsed_s > 0 else 0.0,
        }


@asynccontextmanager
async def shown(meter: Meter, stream: TextIO) -> AsyncIterator[None]:
    """Show the load of the block on a stream."""
    watching = asyncio.create_task(_watch(meter, stream))
    try:
        yield
    finally:
        watching.cancel()
        with suppress(asyncio.CancelledError):
            await watching


async def _watch(meter: Meter, stream: TextIO) -> None:
    window = Window(meter)
    if not redraws(stream):
        while True:
            await asyncio.sleep(_LINE_S)
            stream.write(f"{window.line()}\n")
            stream.flush()
    show, clear = on_terminal(stream)
    try:
        while True:
            await asyncio.sleep(_LIVE_S)
            show(window.rates(), meter)
    finally:
        clear()


Show = Callable[[dict[str, float], Meter], None]


def on_terminal(stream: TextIO) -> tuple[Show, Callable[[], None]]:
    """How to show rates, by `rich` where it is installed, and how to remove what is shown."""
    if find_spec("rich") is None:
        progress = Progress(stream)

        def line(rates: dict[str, float], meter: Meter) -> None:
            progress.show(lambda: "  ".join(f"{value} {unit}" for unit, value in _cells(rates, meter).items()))

        return line, progress.clear
    from rich.console import Console
    from rich.live import Live

    live = Live(console=Console(file=stream), auto_refresh=False, transient=True)
    live.start()
    return lambda rates, meter: live.update(_table(_cells(rates, meter)), refresh=True), live.stop


def _cells(rates: dict[str, float], meter: Meter) -> dict[str, str]:
    """What is shown, by its unit; in a table it has room in 80 columns."""
    latency = meter.latency
    return {
        "s": f"{meter.elapsed_s:.0f}",
        "records": f"{meter.delivered:,}",
        "records/s": f"{rates['records_per_s']:,.0f}",
        "MB/s": f"{rates['mb_per_s']:.2f}",
        "ms p50": f"{latency.percentile(50):.1f}",
        "ms p99": f"{latency.percentile(99):.1f}",
        "ms max": f"{latency.max:.1f}",
        "% CPU": f"{100 * rates['cpu']:.0f}",
        "failed": f"{meter.failed:,}",
    }


def _table(cells: dict[str, str]) -> Any:
    from rich.box import SIMPLE_HEAD
    from rich.table import Table

    table = Table(box=SIMPLE_HEAD, show_edge=False)
    for name in cells:
        table.add_column(name, justify="right")
    table.add_row(*cells.values())
    return table

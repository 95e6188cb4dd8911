"""What the demo shows: a bar on a terminal that can redraw, a line every few seconds anywhere else."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from time import monotonic

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn
from rich.table import Table
from rich.text import Text

__all__ = ["Screen", "Stage"]

LINE_EVERY_S = 3.0


class Pace:
    """Lets a line through now and then: the first one, and one after each `LINE_EVERY_S`."""

    def __init__(self) -> None:
        self._next = 0.0

    def allows(self) -> bool:
        """Whether it is time for a line; if so, the next one has to wait."""
        now = monotonic()
        if now < self._next:
            return False
        self._next = now + LINE_EVERY_S
        return True


class Stage:
    """The progress of one job with a known number of records."""

    def __init__(self, console: Console, verb: str, total: int, progress: Progress | None) -> None:
        self._console = console
        self._verb = verb
        self._total = total
        self._progress = progress
        self._task = TaskID(0) if progress is None else progress.add_task(verb, total=total, detail="")
        self._pace = Pace()
        self._finished = False

    def show(self, done: int, detail: str) -> None:
        """`done` records are through; `detail` is what there is to say about it."""
        if self._progress is not None:
            self._progress.update(self._task, completed=done, detail=detail)
        elif not self._finished and (done >= self._total or self._pace.allows()):
            self._finished = done >= self._total
            self._console.print(f"{self._verb} {done:,} of {self._total:,}  {detail}", soft_wrap=True)


class Screen:
    """The terminal, or the file that stands in for it."""

    def __init__(self, console: Console | None = None) -> None:
        self.console = console or Console(highlight=False, markup=False, emoji=False)
        self._redraws = self.console.is_terminal and not self.console.is_dumb_terminal

    def say(self, text: str) -> None:
        """Print a line."""
        self.console.print(text, soft_wrap=True)

    @contextmanager
    def waiting(self, text: str) -> Iterator[Callable[[str], None]]:
        """Show that something is running; yields a function that shows each of its steps."""
        if self._redraws:
            with self.console.status(Text(text)) as status:
                yield lambda step: status.update(Text(f"{text}  {step}", overflow="ellipsis", no_wrap=True))
            return
        self.say(text)
        pace = Pace()

        def show(step: str) -> None:
            if pace.allows():
                self.say(f"  {step}")

        yield show

    @contextmanager
    def stage(self, verb: str, total: int) -> Iterator[Stage]:
        """A job of `total` records."""
        if not self._redraws:
            yield Stage(self.console, verb, total, None)
            return
        columns = (
            TextColumn("{task.description}"),
            BarColumn(bar_width=24),
            TextColumn("{task.completed:,.0f} of {task.total:,.0f}  {task.fields[detail]}"),
        )
        with Progress(*columns, console=self.console) as progress:
            yield Stage(self.console, verb, total, progress)

    def table(self, title: str, rows: list[tuple[str, str]]) -> None:
        """Print names and values in two columns."""
        table = Table(title=title, title_justify="left", show_header=False)
        table.add_column(style="bold")
        table.add_column(justify="right")
        for row in rows:
            table.add_row(*row)
        self.console.print(table)

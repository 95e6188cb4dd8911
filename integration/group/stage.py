"""The group during a run: its processes start and end, and their reports are collected."""

from __future__ import annotations

import asyncio
import random
import time
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final

from aioprod import TopicPartition
from integration.group.plan import Event, Strategy, What
from integration.group.processes import Programs, Running
from integration.group.programs.telling import Job
from integration.group.reports import Partitions, Report, Said
from integration.group.standing import GroupStatus

__all__ = ["Progress", "Stage"]

Progress = Callable[[str], None]

_SETTLE_TIMEOUT_S: Final = 90.0
_CALM_S: Final = 1.0
"""It may look settled for a moment, until the last has heard of a new generation."""
_OVERLAP_S: Final = 1.0
_END_TIMEOUT_S: Final = 30.0
_POLL_S: Final = 0.02


@dataclass(slots=True)
class Stage:
    """`took_s`: from an event until everybody had been told what is theirs, by the event; `settled`: who had what then,
    by generation and member id; `committed`: as far as members told of it; `wrong`: how processes ended badly."""

    programs: Programs
    strategy: Strategy
    job: Job
    folder: Path
    standing: GroupStatus
    progress: Progress
    reports: list[Report] = field(default_factory=list)
    took_s: dict[str, list[float]] = field(default_factory=lambda: defaultdict(list))
    settled: dict[int, dict[str, Partitions]] = field(default_factory=dict)
    committed: dict[TopicPartition, int] = field(default_factory=dict)
    wrong: list[str] = field(default_factory=list)
    _running: dict[str, Running] = field(default_factory=dict)
    _leaving: list[Running] = field(default_factory=list)
    _crashed_at: float = 0.0

    def _hear(self, report: Report) -> None:
        self.reports.append(report)
        self.standing.report(report)
        if report.said is Said.COMMITTED:
            for partition, offset in zip(report.partitions, report.offsets, strict=True):
                self.committed[partition] = max(offset, self.committed.get(partition, 0))

    async def play(self, events: Sequence[Event], chance: random.Random) -> None:
        """Let all happen, each once the group has settled after the one before, but for those that overlap."""
        overlaps, first_at = False, 0.0
        for number, event in enumerate(events, 1):
            if event.founds:
                await self._emptied()
                overlaps = False
            generation, begun_at = self.standing.generation, time.monotonic()
            first_at = first_at if overlaps else begun_at
            is_heard = await self._happen(event)
            if event.overlaps:
                self.progress(f"{number} of {len(events)}: {event.what} {event.name}, and on")
                await asyncio.sleep(chance.random() * _OVERLAP_S)
            elif self.standing.names and not is_heard:
                # It had not got so far; the coordinator may miss it later all the same.
                await self._missed()
                await self._settle(0)
            elif self.standing.names:
                settled_at = await self._settle(generation + 1)
                took_s = settled_at - self._last_began_at(first_at, begun_at)
                self.took_s["several at once" if overlaps else event.title].append(took_s)
                self.progress(f"{number} of {len(events)}: {event.what} {event.name}, settled within {took_s:.2f} s")
            overlaps = event.overlaps

    async def _happen(self, event: Event) -> bool:
        """Whether the others are to hear of it, as a new generation."""
        if event.what is What.JOIN:
            self.standing.expect(event.name)
            job = replace(self.job, strategies=[*self.strategy.offers[event.kind]])
            started = await self.programs.start(event.kind, event.name, job, self.folder, self._hear)
            self._running[event.name] = started
            return True
        member = self._running.pop(event.name)
        if event.what is What.CRASH:
            await member.kill()
            self._crashed_at = time.monotonic()
        else:
            member.leave()
            self._leaving.append(member)
        return self.standing.forget(event.name)

    def _last_began_at(self, first_at: float, last_at: float) -> float:
        """When the last of the events since `first_at` began: processes join or leave some time after they were told
        to, and are killed at once."""
        said = (report.at for report in self.reports if report.said in (Said.BEGINS, Said.LEAVES))
        return max([last_at, *(at for at in said if at >= first_at)])

    async def _settle(self, generation: int) -> float:
        """Wait until the group is settled in `generation` or later, and stays so for a while; since when it is."""
        deadline = time.monotonic() + _SETTLE_TIMEOUT_S
        while True:
            settled_at = self.standing.settled_at()
            now = time.monotonic()
            if settled_at is not None and self.standing.generation >= generation and now > settled_at + _CALM_S:
                self.settled[self.standing.generation] = self.standing.owned
                return settled_at
            if ended := [member for member in self._running.values() if member.has_ended]:
                raise RuntimeError(await ended[0].ended(_END_TIMEOUT_S) or f"{ended[0].name} ended by itself")
            if now > deadline:
                raise TimeoutError(f"The group did not settle within {_SETTLE_TIMEOUT_S:.0f} s: {self.standing}")
            await asyncio.sleep(_POLL_S)

    async def _emptied(self) -> None:
        """Wait until those who leave have left, and those who crashed are missed."""
        for member in self._leaving:
            if wrong := await member.ended(_END_TIMEOUT_S):
                self.wrong.append(wrong)
        self._leaving.clear()
        await self._missed()

    async def _missed(self) -> None:
        """Wait until the coordinator has to miss the last that crashed."""
        await asyncio.sleep(self._crashed_at + self.job.session_timeout_ms / 1e3 + _CALM_S - time.monotonic())

    async def finish(self, sent: Mapping[TopicPartition, int]) -> None:
        """Let the members work off what is there, and leave."""
        deadline = time.monotonic() + _SETTLE_TIMEOUT_S
        while self.committed != sent and time.monotonic() < deadline:
            await asyncio.sleep(_POLL_S)
        for name in self.standing.names:
            await self._happen(Event(What.LEAVE, "", name))
        await self._emptied()

    async def close(self) -> None:
        """Kill what still runs."""
        for member in (*self._running.values(), *self._leaving):
            await member.kill()

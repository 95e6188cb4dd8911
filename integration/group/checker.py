"""Compare what the members of a group reported with the records that were sent and the committed offsets."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from aioprod import TopicPartition
from integration.group.reports import Partitions, Report, Said
from integration.support.reading import Stored

__all__ = ["Verdict", "judge", "judge_output"]

_EXAMPLES_MAX: Final = 5


@dataclass(slots=True)
class Verdict:
    """Counts of flaws, with some examples of each, and what was done.

    `handled` records, of which `again` were handled before, by whoever; `led` generations by process, as far as its
    members have heard of their assignment; `checked`: of these compared with what their leader assigned.
    """

    handled: int = 0
    again: int = 0
    generations: int = 0
    checked: int = 0
    led: Counter[str] = field(default_factory=Counter)
    flaws: Counter[str] = field(default_factory=Counter)
    examples: dict[str, list[str]] = field(default_factory=lambda: defaultdict(list))

    def flaw(self, name: str, example: str, count: int = 1) -> None:
        """Count a flaw."""
        self.flaws[name] += count
        if len(self.examples[name]) < _EXAMPLES_MAX:
            self.examples[name].append(example)


def judge(
    reports: Sequence[Report],
    sent: Mapping[TopicPartition, int],
    committed: Mapping[TopicPartition, int],
    settled: Mapping[int, Mapping[str, Partitions]],
) -> Verdict:
    """Compare the reports, each process's own in its order, with how many records were `sent` to each partition.

    `committed` is how far the group has got in the end, `settled` who had what, by member id, in those generations in
    which at last everything had an owner.
    """
    verdict = Verdict()
    _judge_records(verdict, reports, sent, committed)
    _judge_commits(verdict, reports)
    _judge_owners(verdict, reports)
    for process in dict.fromkeys(report.process for report in reports):
        _judge_process(verdict, [report for report in reports if report.process == process])
    _judge_assignments(verdict, reports, settled)
    return verdict


def judge_output(verdict: Verdict, topic: str, written: Iterable[Stored], sent: Mapping[TopicPartition, int]) -> None:
    """What readers of committed records see of a topic that was transformed: each record once, in order."""
    values: dict[int, list[int]] = defaultdict(list)
    for record in written:
        values[record.partition].append(int(record.value or b"-1"))
    for partition, count in sent.items():
        if partition.topic == topic and (found := values[partition.partition]) != [*range(count)]:
            missing, twice = count - len(set(found)), len(found) - len(set(found))
            example = f"{_name(partition)} has {missing} missing and {twice} twice of {count}"
            verdict.flaw("not exactly once" if missing or twice else "written out of order", example)


def _judge_records(
    verdict: Verdict,
    reports: Iterable[Report],
    sent: Mapping[TopicPartition, int],
    committed: Mapping[TopicPartition, int],
) -> None:
    handled: dict[TopicPartition, Counter[int]] = defaultdict(Counter)
    for report in reports:
        if report.said is Said.HANDLED:
            handled[report.partitions[0]].update(report.offsets)
    for partition, count in sent.items():
        found = handled[partition]
        lost = [offset for offset in range(count) if offset not in found]
        if lost:
            verdict.flaw("lost", f"{_name(partition)} from {lost[0]} to {lost[-1]} was not handled", len(lost))
        if committed.get(partition) != count:
            verdict.flaw(
                "not committed", f"{_name(partition)} has {count} records, {committed.get(partition)} is committed"
            )
    for partition, found in handled.items():
        invented = [offset for offset in found if offset >= sent.get(partition, 0)]
        if invented:
            verdict.flaw("invented", f"{_name(partition)} at {min(invented)} was handled, and not sent", len(invented))
        verdict.handled += found.total()
        verdict.again += found.total() - len(found)


def _judge_commits(verdict: Verdict, reports: Iterable[Report]) -> None:
    """What was committed had been handled before: a crash may come at once."""
    done: dict[TopicPartition, set[int]] = defaultdict(set)
    until: Counter[TopicPartition] = Counter()
    for report in sorted(reports, key=lambda report: report.at):
        if report.said is Said.HANDLED:
            done[report.partitions[0]].update(report.offsets)
        elif report.said is Said.COMMITTED:
            for partition, offset in zip(report.partitions, report.offsets, strict=True):
                while until[partition] in done[partition]:
                    until[partition] += 1
                if offset > until[partition]:
                    example = f"{report.process} committed {offset} of {_name(partition)}, of which {until[partition]}"
                    verdict.flaw("committed, not handled", f"{example} had not been handled")


def _judge_owners(verdict: Verdict, reports: Iterable[Report]) -> None:
    """Within a generation a partition's records are handled by one member, and only one."""
    owners: dict[tuple[TopicPartition, int], str] = {}
    for report in reports:
        if report.said is Said.HANDLED:
            partition = report.partitions[0]
            if report.generation < 0:
                verdict.flaw(
                    "no generation", f"{report.process} handled {_name(partition)} in none", len(report.offsets)
                )
            owner = owners.setdefault((partition, report.generation), report.member)
            if owner != report.member:
                verdict.flaw(
                    "two owners",
                    f"{_name(partition)} at {report.offsets[0]} was handled by {report.process} ({report.member}) in "
                    f"generation {report.generation}, which was that of {owner}",
                    len(report.offsets),
                )


def _judge_process(verdict: Verdict, reports: Iterable[Report]) -> None:
    """A member handles what it has, in the order of offsets and without a gap."""
    owned: set[TopicPartition] = set()
    next_offset: dict[TopicPartition, int] = {}
    for report in reports:
        match report.said:
            case Said.ASSIGNED:
                if again := owned & set(report.partitions):
                    verdict.flaw("assigned twice", f"{report.process} had {_name(min(again))} already", len(again))
                owned |= set(report.partitions)
            case Said.REVOKED | Said.LOST:
                if foreign := set(report.partitions) - owned:
                    verdict.flaw("revoked, not owned", f"{report.process} had no {_name(min(foreign))}", len(foreign))
                owned -= set(report.partitions)
                for partition in report.partitions:
                    next_offset.pop(partition, None)
            case Said.REWOUND:
                next_offset.clear()
            case Said.HANDLED:
                partition = report.partitions[0]
                if partition not in owned:
                    example = f"{report.process} handled {_name(partition)} at {report.offsets[0]}"
                    verdict.flaw("handled, not owned", example, len(report.offsets))
                for offset in report.offsets:
                    if offset != next_offset.get(partition, offset):
                        example = f"{report.process} handled {_name(partition)} at {offset}"
                        verdict.flaw("out of order", f"{example}, and {next_offset[partition]} was next")
                    next_offset[partition] = offset + 1
            case _:
                pass


def _judge_assignments(
    verdict: Verdict, reports: Iterable[Report], settled: Mapping[int, Mapping[str, Partitions]]
) -> None:
    """Of each generation: no partition in two hands; where it settled, what its leader had assigned."""
    owned: dict[str, Partitions] = defaultdict(frozenset)
    leading: dict[str, Mapping[str, Partitions]] = {}
    assigned: dict[int, Mapping[str, Partitions]] = {}
    leaders: dict[int, str] = {}
    generations: dict[int, dict[str, Partitions]] = defaultdict(dict)
    for report in reports:
        changed = frozenset(report.partitions)
        match report.said:
            case Said.LEADS if report.generation >= 0:
                leaders[report.generation] = report.process
            case Said.LEADS:
                # It can't tell the generation before it is handed out.
                leading[report.process] = report.assignment
            case Said.REVOKED | Said.LOST:
                owned[report.process] -= changed
            case Said.ASSIGNED:
                owned[report.process] |= changed
                generations[report.generation][report.member] = owned[report.process]
                if report.process in leading:
                    leaders[report.generation] = report.process
                    assigned[report.generation] = leading.pop(report.process)
            case _:
                pass
    verdict.generations = len(generations)
    verdict.led.update(leaders.values())
    for generation, members in generations.items():
        _judge_disjoint(verdict, generation, members)
    for generation in settled.keys() & assigned.keys():
        verdict.checked += 1
        leader = f"{leaders[generation]} in generation {generation}"
        _judge_obeyed(verdict, leader, assigned[generation], settled[generation])


def _judge_disjoint(verdict: Verdict, generation: int, members: Mapping[str, Partitions]) -> None:
    holders: dict[TopicPartition, str] = {}
    for member, partitions in members.items():
        for partition in partitions:
            if partition in holders:
                both = f"{holders[partition]} and {member}"
                verdict.flaw("assigned to two", f"{_name(partition)} in generation {generation} to {both}")
            holders[partition] = member


def _judge_obeyed(
    verdict: Verdict, leader: str, assignment: Mapping[str, Partitions], members: Mapping[str, Partitions]
) -> None:
    for member, partitions in members.items():
        if partitions != assignment.get(member, frozenset()):
            expected = sorted(map(_name, assignment.get(member, ())))
            has = sorted(map(_name, partitions))
            verdict.flaw("not as assigned", f"{leader} assigned {expected} to {member}, which has {has}")


def _name(partition: TopicPartition) -> str:
    return f"{partition.topic}-{partition.partition}"

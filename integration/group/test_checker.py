"""Tests of the group's checker: it finds each broken guarantee, and reports no others."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence

import pytest

from aioprod import TopicPartition
from integration.group.checker import Verdict, judge, judge_output
from integration.group.plan import STRATEGIES, What, plan
from integration.group.reports import Partitions, Report, Said
from integration.group.standing import GroupStatus
from integration.support.reading import Stored

P, Q = TopicPartition("orders", 0), TopicPartition("orders", 1)

_TIME = itertools.count(1)


def said(
    what: Said,
    process: str = "a",
    generation: int = 1,
    partitions: Sequence[TopicPartition] = (P,),
    offsets: Sequence[int] = (),
    assignment: Mapping[str, Partitions] | None = None,
) -> Report:
    """A report later than all before; a process's member id is its name."""
    return Report(process, what, next(_TIME), process, generation, (*partitions,), (*offsets,), assignment or {})


def flaws(
    *reports: Report,
    sent: int = 2,
    committed: int | None = None,
    settled: Mapping[int, Mapping[str, Partitions]] | None = None,
) -> dict[str, int]:
    """Of a run in which P alone has `sent` records."""
    return dict(judge(reports, {P: sent}, {P: sent if committed is None else committed}, settled or {}).flaws)


def handled(*offsets: int, process: str = "a", generation: int = 1, partition: TopicPartition = P) -> Report:
    return said(Said.HANDLED, process, generation, [partition], offsets)


def assigned(*partitions: TopicPartition, process: str = "a", generation: int = 1) -> Report:
    return said(Said.ASSIGNED, process, generation, partitions)


def revoked(*partitions: TopicPartition, process: str = "a", generation: int = 1) -> Report:
    return said(Said.REVOKED, process, generation, partitions)


def committed(offset: int, process: str = "a") -> Report:
    return said(Said.COMMITTED, process, offsets=(offset,))


def leads(process: str = "a", **assignment: Sequence[TopicPartition]) -> Report:
    told = {member: frozenset(partitions) for member, partitions in assignment.items()}
    return said(Said.LEADS, process, -1, (), assignment=told)


def test_one_member_alone() -> None:
    assert flaws(assigned(P), handled(0, 1), committed(2)) == {}


def test_what_a_crash_left_uncommitted_is_handled_again_in_the_next_generation() -> None:
    reports = [
        assigned(P),
        handled(0, 1),
        committed(1),
        assigned(P, process="b", generation=2),
        handled(1, process="b", generation=2),
    ]
    assert flaws(*reports) == {}
    verdict = judge(reports, {P: 2}, {P: 2}, {})
    assert (verdict.handled, verdict.again, verdict.generations) == (3, 1, 2)


def test_one_who_does_not_know_yet_that_its_partition_has_another_owner() -> None:
    assert flaws(assigned(P), handled(0), assigned(P, process="b", generation=2), handled(1)) == {}


@pytest.mark.parametrize(
    ("reports", "found"),
    [
        ([assigned(P), handled(0)], {"lost": 1}),
        ([assigned(P), handled(0, 1, 2)], {"invented": 1}),
        ([assigned(P), handled(0, 1), handled(1, process="b")], {"two owners": 1, "handled, not owned": 1}),
        ([assigned(P), handled(0, 1), assigned(P, process="b")], {"assigned to two": 1}),
        ([assigned(P, generation=-1), handled(0, 1, generation=-1)], {"no generation": 2}),
        ([assigned(Q), handled(0, 1)], {"handled, not owned": 2}),
        ([assigned(P), handled(0), revoked(P), handled(1)], {"handled, not owned": 1}),
        ([assigned(P), handled(0), said(Said.LOST), handled(1)], {"handled, not owned": 1}),
        ([assigned(P), handled(1), handled(0)], {"out of order": 1}),
        ([assigned(P), handled(0), handled(0, 1)], {"out of order": 1}),
        ([assigned(P), handled(0), committed(2), handled(1)], {"committed, not handled": 1}),
        ([assigned(P), assigned(P), handled(0, 1)], {"assigned twice": 1}),
        ([assigned(P), handled(0, 1), revoked(P, Q)], {"revoked, not owned": 1}),
    ],
)  # fmt: skip
def test_each_flaw_is_found(reports: Sequence[Report], found: dict[str, int]) -> None:
    assert flaws(*reports) == found


def test_a_gap_is_no_gap_once_the_partition_was_away() -> None:
    reports = [assigned(P), handled(0), revoked(P), assigned(P, generation=3), handled(2, generation=3)]
    others = [assigned(P, process="b", generation=2), handled(1, process="b", generation=2)]
    assert flaws(*reports, *others, sent=3) == {}


def test_after_an_aborted_transaction_records_come_again() -> None:
    assert flaws(assigned(P), handled(0, 1), said(Said.REWOUND, partitions=()), handled(0, 1), committed(2)) == {}


def test_the_group_has_committed_less_than_there_is() -> None:
    assert flaws(assigned(P), handled(0, 1), committed=1) == {"not committed": 1}


def test_members_have_what_their_leader_assigned() -> None:
    reports = [leads(a=[P], b=[Q]), assigned(P), assigned(Q, process="b"), handled(0, 1)]
    obeyed = {"a": frozenset([P]), "b": frozenset([Q])}
    assert flaws(*reports, settled={1: obeyed}) == {}
    assert flaws(*reports, settled={1: {"a": frozenset([Q]), "b": frozenset([P])}}) == {"not as assigned": 2}
    verdict = judge(reports, {P: 2}, {P: 2}, {1: obeyed})
    assert (verdict.led, verdict.checked) == ({"a": 1}, 1)


def test_only_the_last_assignment_before_a_generation_counts() -> None:
    reports = [leads(a=[P, Q]), leads(a=[P], b=[Q]), assigned(P), assigned(Q, process="b"), handled(0, 1)]
    assert flaws(*reports, settled={1: {"a": frozenset([P]), "b": frozenset([Q])}}) == {}


@pytest.mark.parametrize(
    ("values", "found"),
    [
        ((0, 1, 2), {}),
        ((0, 2), {"not exactly once": 1}),
        ((0, 1, 1, 2), {"not exactly once": 1}),
        ((0, 2, 1), {"written out of order": 1}),
    ],
)
def test_what_a_transformer_writes_is_there_once(values: Sequence[int], found: dict[str, int]) -> None:
    verdict = Verdict()
    written = [Stored(P.partition, offset, None, b"%d" % value, (), 0, 0) for offset, value in enumerate(values)]
    judge_output(verdict, P.topic, written, {P: 3})
    assert verdict.flaws == found


def test_a_group_has_settled_when_all_know_the_generation_and_each_partition_has_an_owner() -> None:
    standing = GroupStatus(frozenset([P, Q]))
    standing.expect("a")
    standing.report(assigned(P, Q))
    assert standing.settled_at() is not None
    standing.expect("b")
    assert standing.settled_at() is None
    standing.report(assigned(process="b", generation=2))
    assert standing.settled_at() is None  # a knows of no second generation
    for report in (revoked(Q), assigned(generation=2)):
        standing.report(report)
    assert standing.settled_at() is None  # Q is nobody's
    standing.report(assigned(generation=3))
    last = assigned(Q, process="b", generation=3)
    standing.report(last)
    assert standing.settled_at() == last.at
    assert standing.forget("b")
    assert standing.settled_at() is None


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize("events", [6, 9, 12, 50])
def test_a_plan_lets_each_kind_lead_and_members_be_left(events: int, seed: int) -> None:
    kinds = STRATEGIES["range"].kinds
    planned = plan(kinds, events, seed)
    assert planned == plan(kinds, events, seed)
    assert len(planned) == events
    assert tuple(event.kind for event in planned if event.founds) == kinds
    alive: list[str] = []
    for event in planned:
        if event.founds:
            assert not alive
        if event.what is What.JOIN:
            assert event.name not in alive
            alive.append(event.name)
        else:
            alive.remove(event.name)
    assert alive

"""Tests of the checker: it finds each broken guarantee, and reports no others."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from pathlib import Path

import pytest

from integration.chaos.brokers import Change
from integration.chaos.checker import Stored, Verdict, judge
from integration.chaos.faults import Down
from integration.chaos.frozen import frozen_figures
from integration.chaos.ledger import Finding, Found, Gap, Ledger, Outcome, Place, sequence_of, value_of
from integration.chaos.resolved import resolved_figures
from integration.chaos.resolving import BytesRead, Resolving
from integration.chaos.stalls import Stall, longest_stalls

MAIN = Place("main", 0)
SOLO = Place("solo", 1)


def told(*outcomes: Outcome, place: Place = MAIN, offsets: Sequence[int] | None = None, took_s: float = 1.0) -> Ledger:
    """A record per outcome, sent one second after the other; delivered ones are at these offsets, or in a row."""
    ledger = Ledger()
    places = iter(offsets if offsets is not None else range(len(outcomes)))
    for index, outcome in enumerate(outcomes):
        sequence = ledger.new(place, float(index))
        if outcome is not Outcome.SILENT:
            offset = next(places) if outcome is Outcome.DELIVERED else -1
            ledger.tell(place, sequence, index + took_s, outcome, offset)
    return ledger


def log(*sequences: int) -> dict[Place, list[Stored]]:
    return {MAIN: [Stored(offset, sequence) for offset, sequence in enumerate(sequences)]}


def verdict(ledger: Ledger, *sequences: int) -> Verdict:
    return judge(ledger, log(*sequences), deadline_s=6.0)


D, N, R, U = Outcome.DELIVERED, Outcome.NOT_SENT, Outcome.REJECTED, Outcome.UNKNOWN


@pytest.mark.parametrize(
    ("outcomes", "sequences", "flaws"),
    [
        ((D, D, D), (0, 1, 2), {}),
        ((D, N, D), (0, 2), {}),
        ((N, R), (), {}),
        ((U, U), (0,), {}),
        ((D,), (), {"lost": 1}),
        ((D, D), (0, 1, 0, 1), {"duplicated": 2}),
        ((U, U, U), (1, 0, 2), {"out of order": 1}),
        ((U, U, U), (0, 1, 2, 0), {"duplicated": 1}),
        ((N,), (0,), {"not sent, but stored": 1}),
        ((R,), (0,), {"rejected, but stored": 1}),
        ((Outcome.REFUSED,), (0,), {"refused, but stored": 1}),
        ((Outcome.SILENT,), (), {"hung": 1}),
        ((D,), (0, 1), {"invented": 1}),
    ],
)
def test_flaws_of_records(outcomes: tuple[Outcome, ...], sequences: tuple[int, ...], flaws: dict[str, int]) -> None:
    found = verdict(told(*outcomes), *sequences)
    assert dict(found.flaws) == flaws
    assert found.examples.keys() == flaws.keys()
    assert found.sent == len(outcomes)


def test_where_a_delivered_record_is() -> None:
    assert verdict(told(D, D, offsets=[0, 5]), 0, 1).flaws == {"misplaced": 1}
    assert verdict(told(D, D, offsets=[0, -1]), 0, 1).flaws == {}, "a duplicate that the broker has forgotten"


def test_late_and_repeated_outcomes() -> None:
    assert dict(verdict(told(N, took_s=7.5)).flaws) == {}
    assert dict(verdict(told(N, took_s=7.6)).flaws) == {"late": 1}
    ledger = told(N, took_s=7.6)
    ledger.gaps = [Gap(0.0, 5.9, 0.0), Gap(7.0, 7.3, 0.1), Gap(8.0, 9.0, 0.0)]
    assert dict(verdict(ledger).flaws) == {}, "for 0.2 s after the deadline others had the processor"
    ledger.gaps = [Gap(0.0, 5.9, 0.0), Gap(7.0, 7.3, 0.25)]
    assert dict(verdict(ledger).flaws) == {"late": 1}, "for all but 0.05 s the process has worked itself"
    ledger = told(N)
    ledger.tell(MAIN, 0, 3.0, D, 0)
    assert dict(verdict(ledger).flaws) == {"told twice": 1}


def test_unknown_records_in_the_log_are_counted() -> None:
    found = verdict(told(U, U, Outcome.FAILED, D, offsets=[3]), 0, 2, 1, 3)
    assert (found.stored_unknown, dict(found.flaws)) == (3, {"out of order": 1})


STORED, ABSENT, OPEN = Found.STORED, Found.ABSENT, Found.OPEN


@pytest.mark.parametrize(
    ("finding", "sequences", "flaws"),
    [
        (Finding(STORED, 1), (0, 1, 2), {}),
        (Finding(STORED, 2), (0, 1, 2), {"found elsewhere": 1}),
        (Finding(STORED, 1), (0, 2), {"found elsewhere": 1}),
        (Finding(ABSENT), (0, 2), {}),
        (Finding(ABSENT), (0, 1, 2), {"found nowhere, but stored": 1}),
        (Finding(OPEN, reason="undecided"), (0, 1, 2), {"not found out": 1}),
        (Finding(OPEN, reason="undecided"), (0, 2), {"not found out": 1}),
    ],
)
def test_flaws_of_findings(finding: Finding, sequences: tuple[int, ...], flaws: dict[str, int]) -> None:
    ledger = told(D, U, D, offsets=[0, len(sequences) - 1])
    ledger.findings[MAIN, 1] = finding
    found = verdict(ledger, *sequences)
    assert dict(found.flaws) == flaws
    assert found.examples.keys() == flaws.keys()


def test_findings_that_nothing_can_be_compared_with() -> None:
    ledger = told(D, U)
    ledger.findings[MAIN, 1] = Finding(OPEN, reason="undecided")
    assert verdict(ledger, 0).flaws == {}, "no later record was delivered"
    ledger = told(D, U, D, place=Place("doomed", 0))
    ledger.findings[Place("doomed", 0), 1] = Finding(STORED, 7)
    assert judge(ledger, {}, deadline_s=6.0, gone=("doomed",)).flaws == {}


def test_figures_of_findings() -> None:
    doomed = Place("doomed", 0)
    ledger = told(U, U, D, U, U)
    for index in range(2):
        ledger.tell(doomed, ledger.new(doomed, 0.0), 1.0, (U, D)[index])
    assert resolved_figures(ledger, gone=("doomed",)) is None
    ledger.findings = {
        (MAIN, 0): Finding(STORED, 0, seconds=3.0),
        (MAIN, 1): Finding(OPEN, reason="unanswered"),
        (MAIN, 3): Finding(ABSENT, seconds=1.0, calls=2),
        (MAIN, 4): Finding(OPEN, reason="undecided"),
        (doomed, 0): Finding(OPEN, reason="recreated"),
    }
    ledger.bytes_read = [200, 300]
    assert resolved_figures(ledger, gone=("doomed",)) == {
        "unknown": 5,
        "stored": 1,
        "absent": 1,
        "second": 1,
        "open_later": 1,
        "open_idle": 1,
        "open_other": 1,
        "reasons": {"unanswered": 1, "undecided": 1, "recreated": 1},
        "p50_s": 3.0,
        "p99_s": 3.0,
        "max_s": 3.0,
        "passes": 2,
        "bytes": 500,
        "bytes_max": 300,
    }


async def test_what_stays_unknown_is_resolved_again_at_the_end() -> None:
    ledger = Ledger()
    resolving = Resolving(ledger)
    answers = [Finding(OPEN, reason="undecided"), Finding(ABSENT)]

    async def decided_later(timeout_s: float) -> Finding:
        return answers.pop(0)

    async def known(timeout_s: float) -> Finding:
        return Finding(STORED, 3)

    resolving.begin(MAIN, 0, decided_later)
    resolving.begin(SOLO, 1, known)
    while (SOLO, 1) not in ledger.findings:
        await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert resolving.places() == {MAIN}
    await resolving.end()
    assert {at: (one.found, one.offset, one.calls) for at, one in ledger.findings.items()} == {
        (SOLO, 1): (STORED, 3, 1),
        (MAIN, 0): (ABSENT, -1, 2),
    }


def test_the_ledger_of_another_process(tmp_path: Path) -> None:
    ledger = told(D, U)
    ledger.findings[MAIN, 1] = Finding(OPEN, reason="undecided", error="why", seconds=1.5)
    ledger.bytes_read = [7]
    ledger.write(tmp_path / "ledger")
    found = Ledger.read(tmp_path / "ledger")
    assert (found.records, found.findings, found.bytes_read) == (ledger.records, ledger.findings, [7])


def test_bytes_are_taken_from_the_log() -> None:
    counts: list[int] = []
    line = logging.makeLogRecord(
        {"msg": "%d bytes of %s-%d were read to resolve %s", "args": (7, "t", 0, "1 batch"), "levelno": logging.DEBUG}
    )
    BytesRead(counts).handle(line)
    assert counts == [7]


def test_errors_are_counted_by_kind() -> None:
    ledger = Ledger()
    for number in range(3):
        sequence = ledger.new(MAIN, 0.0)
        ledger.tell(MAIN, sequence, 1.0, N, error=f"{number + 9} records of main-{number}: 127.0.0.1:{number} is away")
    assert dict(verdict(ledger).errors) == {"N records of main-N: N is away": 3}


def test_records_of_unknown_places_and_of_topics_that_are_gone() -> None:
    assert judge(Ledger(), log(0, 1), deadline_s=1.0).flaws == {"invented": 2}
    ledger = told(D, Outcome.SILENT, place=Place("doomed", 0))
    assert judge(ledger, {}, deadline_s=6.0, gone=("doomed",)).flaws == {"hung": 1}


def test_values_carry_numbers() -> None:
    assert [sequence_of(value_of(number)) for number in (0, 17)] == [0, 17]
    with pytest.raises(ValueError, match="no record of this run"):
        sequence_of(b"17")


def delivered_at(place: Place, *times: float) -> Ledger:
    ledger = Ledger()
    for time in times:
        ledger.tell(place, ledger.new(place, time), time, D, 0)
    return ledger


def test_stalls_of_healthy_partitions() -> None:
    ledger = delivered_at(SOLO, 1, 2, 3, 11, 12, 40)
    changes = [Change(0, SOLO, 2)]
    stalls = longest_stalls(ledger, [Down(1, 5, 9, 10)], changes)
    assert stalls["solo"] == Stall(5, SOLO, 2, 1, 1), "from 5 to 10: there was no delivery at all"
    assert longest_stalls(ledger, [Down(1, 1.5, 2, 10)], changes)["solo"].seconds == 7, "from 3 to 10"
    assert longest_stalls(ledger, [Down(2, 5, 9, 10)], changes) == {}, "its own broker was away"
    assert longest_stalls(ledger, [Down(1, 5, 9, 10), Down(2, 9, 11, 12)], changes) == {}, "for a part of the time"
    assert longest_stalls(ledger, [Down(1, 5, 9, 10)], [*changes, Change(7, SOLO, 3)]) == {}, "its leader changed"
    assert longest_stalls(ledger, [Down(1, 5, 9, 10)], [*changes, Change(4, SOLO, -1)]) == {}, "it had no leader"
    assert longest_stalls(ledger, [Down(1, 11.5, 11.6, 13)], changes)["solo"].seconds == 1


def test_what_waited_for_the_frozen_broker() -> None:
    ledger = Ledger()
    for sent_at, outcome in [(9, D), (11, U), (12, U), (13, N), (16, D), (26, D), (27, N)]:
        ledger.tell(SOLO, ledger.new(SOLO, sent_at), sent_at + 6.0, outcome)
    ledger.tell(MAIN, ledger.new(MAIN, 12), 13, N)
    figures = frozen_figures(ledger, Down(2, 10, 21, 25), {SOLO: 2}, deadline_s=6.0)
    assert figures == {
        "stuck": 3,
        "stuck_not_sent": 1,
        "stuck_unknown": 2,
        "stuck_delivered": 0,
        "unknown_until_s": 2,
        "slowest_stuck_s": 6,
        "after_thaw": 2,
        "failed_after_thaw": 1,
    }

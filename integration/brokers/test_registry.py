"""The result of a check, for each expected result on a release."""

from __future__ import annotations

import pytest

from aioprod.errors import UnsupportedVersionError
from aioprod.testing import TcpProxy
from integration.brokers.broker import KFAKE, Broker
from integration.brokers.checks import CHECKS
from integration.brokers.registry import Check, carried_out


async def works(broker: Broker) -> None:
    """What every broker can do."""


async def fails(broker: Broker) -> None:
    raise AssertionError("one record is missing")


async def refused(broker: Broker) -> None:
    raise UnsupportedVersionError("The brokers are too old.", hint="They have to be Kafka 3.0 or later.")


def broker(name: str) -> Broker:
    return Broker(name, TcpProxy("127.0.0.1:1"))


@pytest.mark.parametrize(
    ("check", "name", "outcome", "as_expected"),
    [
        (Check("works", works), "2.1.1", "ok", True),
        (Check("works", works, since=(3, 0)), "3.0.0", "ok", True),
        (Check("works", works, since=(3, 0)), KFAKE, "ok", True),
        (Check("works too early", works, since=(3, 0)), "2.8.2", "ok", False),
        (Check("fails", fails), "4.4.0", "failed", False),
        (Check("fails in place of a refusal", fails, since=(3, 0)), "2.8.2", "failed", False),
        (Check("refused", refused, since=(3, 0)), "2.8.2", "refused", True),
        (Check("refused too late", refused, since=(3, 0)), "3.0.2", "refused", False),
        (Check("refused with another release", refused, since=(3, 1)), "2.8.2", "refused", False),
        (Check("refused everywhere", refused), "2.8.2", "refused", False),
    ],
    ids=lambda value: value.name if isinstance(value, Check) else str(value),
)
async def test_a_check_and_what_is_expected(check: Check, name: str, outcome: str, as_expected: bool) -> None:
    found = await carried_out(check, broker(name))
    assert (found.outcome, found.as_expected) == (outcome, as_expected)
    assert bool(found.said) == (outcome != "ok" or not as_expected)


def test_each_check_has_a_name_of_its_own() -> None:
    names = [check.name for check in CHECKS]
    assert len(set(names)) == len(names)
    assert not any("|" in name for name in names)


def test_what_is_refused_by_which_release() -> None:
    def by(name: str) -> set[str]:
        return {check.name.partition(":")[0] for check in CHECKS if check.is_refused_by(name)}

    assert by("2.1.1") == {"topics", "transactions", "TransactionSession", "Member", "consumer protocol"}
    assert by("2.4.1") == {"transactions", "TransactionSession", "consumer protocol"}
    assert by("2.8.2") == {"TransactionSession", "consumer protocol"}
    assert by("3.9.2") == {"consumer protocol"}
    assert by("4.0.2") == by(KFAKE) == set()

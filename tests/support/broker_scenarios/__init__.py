"""What brokers answer, told as scenarios that a fake cluster and a real one go through alike.

Where the two differ the fake one is wrong.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Final

from tests.support.broker_scenarios import epochs, logs, offsets, sequences, transactions
from tests.support.lab import Lab

__all__ = ["SCENARIOS", "Scenario"]

Scenario = Callable[[Lab], Awaitable[None]]

SCENARIOS: Final[dict[str, Scenario]] = {
    f"{module.__name__.rpartition('.')[2]}.{scenario.__name__}": scenario
    for module in (sequences, transactions, epochs, offsets, logs)
    for scenario in module.SCENARIOS
}

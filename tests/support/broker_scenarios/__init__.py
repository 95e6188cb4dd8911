"""What brokers answer, as scenarios that run against fake and real brokers.

Where the two differ, the fake is wrong. A scenario is a function with `@scenario` that gets a `Lab`, a raw connection.
"""

from __future__ import annotations

from typing import Final

from tests.support.broker_scenarios import (
    administration,
    classic_groups,
    consumer_groups,
    deletions,
    epochs,
    identities,
    logs,
    offsets,
    sequences,
    topic_settings,
    transactions,
)
from tests.support.broker_scenarios.scenario import Scenario

__all__ = ["SCENARIOS", "Scenario"]

_MODULES: Final = (
    sequences,
    transactions,
    epochs,
    offsets,
    identities,
    logs,
    classic_groups,
    consumer_groups,
    administration,
    deletions,
    topic_settings,
)

SCENARIOS: Final = tuple(one for module in _MODULES for one in vars(module).values() if isinstance(one, Scenario))

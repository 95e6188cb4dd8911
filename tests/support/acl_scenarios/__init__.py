"""The errors of clients without authorization, as scenarios that run against fake and real clusters.

Each scenario has its own user, topics, group and transactional id, without any ACLs at first.
"""

from __future__ import annotations

from typing import Final

from tests.support.acl_scenarios import administration, clients
from tests.support.acl_scenarios.bench import GUARDED, Bench, Scenario, causes_of, denied

__all__ = ["GUARDED", "SCENARIOS", "Bench", "Scenario", "causes_of", "denied"]

SCENARIOS: Final[tuple[Scenario, ...]] = (*clients.SCENARIOS, *administration.SCENARIOS)

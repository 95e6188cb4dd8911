"""What aiokafka's producer is documented to do, as tests that run with aiokafka itself and with aioprod in its place.

They run with fake brokers in `tests/compat/`, with real ones in `integration/compat/`.
"""

from __future__ import annotations

from typing import Final

from tests.support.aiokafka_pairs import batches, construction, life, records, transactions
from tests.support.aiokafka_pairs.pair import CLIENTS, Behaviour, MakeTopic, Pair

__all__ = ["BEHAVIOURS", "CLIENTS", "Behaviour", "MakeTopic", "Pair"]

BEHAVIOURS: Final = tuple(
    one
    for module in (construction, records, batches, life, transactions)
    for one in vars(module).values()
    if isinstance(one, Behaviour)
)

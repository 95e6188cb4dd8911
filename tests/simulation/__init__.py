"""Seeded runs of the producer on a simulated network with faults, and the check of its guarantees.

`python -m tests.simulation` runs seeds. `plan.py` draws the settings of a seed, `run.py` runs it: `work.py` and
`transactor.py` send, `gremlin.py` injects faults, `ledger.py` records what the callers got, and `checker.py` compares
that with the logs. `mutations.py` breaks the producer on purpose, to see that the checker notices.
"""

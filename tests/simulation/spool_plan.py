"""`SpoolPlan`: what the processes of one seed do with a spool, and what their disk does to them."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random

from aioprod.spool.store import Limits

__all__ = ["CALLS", "DiskFaults", "SpoolPlan"]

CALLS = ("sizes", "read", "write", "truncate", "sync", "rename", "remove", "sync_names", "lock")


@dataclass
class DiskFaults:
    """How often calls of files fail, and how many bytes there are."""

    share: float
    calls: tuple[str, ...]
    capacity: int

    @classmethod
    def draw(cls, random: Random) -> DiskFaults:
        """Draw them; most disks fail seldom or never."""
        return cls(
            random.choice([0.0, 0.0, 0.0, 0.003, 0.02, 0.1]),
            tuple(sorted(random.sample(CALLS, random.randint(1, len(CALLS))))),
            random.choice([1 << 40, 1 << 40, 1 << 40, random.randint(500, 20_000)]),
        )


@dataclass
class SpoolPlan:
    """Everything that is drawn before the run."""

    seed: int
    lives: int
    """How many processes there are, one after the other, before all is well."""
    is_shared: bool
    """Whether one process writes, and another one reads."""
    writers: int
    """Tasks that append."""
    appends: int
    """Calls of each of them."""
    records_max: int
    """Records of a call."""
    size_max: int
    pause_max_s: float
    slow_s: float
    """The most that a call of the disk takes."""
    limits: Limits
    faults: DiskFaults
    read_max: int
    trims: float
    cancels: float
    power_cuts: float
    """The share of the processes that end by a power cut; others are killed, or close."""
    closes: float
    crash_steps: int
    """A process dies at one of so many first calls of its files, if it dies by a call."""

    @classmethod
    def draw(cls, seed: int) -> SpoolPlan:
        """Draw a plan from a seed."""
        random = Random(seed)
        pick = random.choice
        max_bytes = pick([3_000, 20_000, 1 << 20])
        plan = cls(
            seed=seed,
            lives=random.randint(1, 6),
            is_shared=random.random() < 0.3,
            writers=random.randint(1, 4),
            appends=random.randint(1, 8),
            records_max=pick([1, 1, 3, 10]),
            size_max=pick([0, 30, 300, 1500]),
            pause_max_s=pick([0.0, 0.01, 0.1]),
            slow_s=pick([0.0, 0.001, 0.05]),
            limits=Limits(max_bytes, pick([1, 150, 500, max_bytes // 2]), pick([500, 5_000, 1 << 20])),
            faults=DiskFaults.draw(random),
            read_max=pick([1, 2, 5, 100]),
            trims=pick([0.0, 0.1, 0.5, 1.0]),
            cancels=pick([0.0, 0.0, 0.1, 0.5]),
            power_cuts=pick([0.0, 0.5, 1.0]),
            closes=pick([0.0, 0.2, 0.8]),
            crash_steps=pick([10, 40, 150]),
        )
        if plan.is_shared:
            # What a file system has failed to sync, and shows, the process that reads can't know: a name, and a group
            # that the process that writes could not cut off either.
            plan.faults.calls = tuple(call for call in plan.faults.calls if call not in ("sync_names", "truncate"))
        return plan

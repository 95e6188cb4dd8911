"""`start_member` makes a member of a group deterministic, as `start` does a producer."""

from __future__ import annotations

from random import Random

from aioprod.group import Member
from aioprod.testing.simulation.loop import SimulatedLoop

__all__ = ["start_member"]


async def start_member(member: Member, loop: SimulatedLoop) -> None:
    """Start a member with the clock and random numbers of `loop`."""
    for session in (member._session, member._reading):
        session.clock = loop.time
        session._random = Random(loop.random.random())
    await member.start()

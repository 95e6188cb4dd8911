"""What admin clients may not do."""

from __future__ import annotations

import asyncio
from typing import Final

from aioprod.admin import Admin
from aioprod.group import Member
from aioprod.testing import Acl
from aioprod.types import TopicPartition
from tests.support.acl_scenarios.bench import PATIENCE_S, Bench, Scenario, denied, error_of, new_name

__all__ = ["SCENARIOS"]


async def topics_and_their_admin(bench: Bench) -> None:
    """No call discloses whether a topic exists that may not be described."""
    new = new_name()
    async with Admin(**bench.options()) as admin:
        error = await error_of(admin.create_topic(new))
        denied(error, "CREATE", "topic", new)
        assert "or CREATE on the cluster" in str(error.hint)
        for name in (bench.secret, new):
            denied(await error_of(admin.delete_topic(name)), "DELETE", "topic", name)
            denied(await error_of(admin.partitions(name)), "DESCRIBE", "topic", name, "READ")
            denied(await error_of(admin.offsets(name, "latest")), "DESCRIBE", "topic", name, "READ")
        assert await admin.topics() == [bench.ok]
        await bench.allow("CREATE", "topic", new)
        error = await error_of(admin.create_topic(new))
        assert error.message.startswith(f"Topic {new!r} was created, but this client may not describe it")
        denied(error, "DESCRIBE", "topic", new)
        await bench.allow("DELETE", "topic", new)
        assert await admin.topics() == sorted([bench.ok, new])
        await admin.delete_topic(new)


async def offsets_of_groups_and_their_admin(bench: Bench) -> None:
    """A reset needs READ on the group and its topics; deleting needs DELETE on the group, and READ on the topics."""
    ok, group = TopicPartition(bench.ok, 0), bench.group
    async with Admin(**bench.options()) as admin:
        for refused in (admin.delete_groups(group), admin.delete_offsets(group, ok)):
            denied(await error_of(refused), "DESCRIBE", "group", group, "DELETE")
        denied(await error_of(admin.reset_offsets(group, "latest")), "DESCRIBE", "group", group, "READ")
        await bench.allow("READ", "group", group)
        for refused in (admin.delete_groups(group), admin.delete_offsets(group, ok)):
            denied(await error_of(refused), "DELETE", "group", group)
        await bench.allow("READ", "topic", bench.ok)
        assigned = asyncio.Event()
        async with Member(
            group_id=group, topics=bench.ok, on_assigned=lambda partitions: assigned.set(), **bench.options()
        ) as member:
            await asyncio.wait_for(assigned.wait(), PATIENCE_S)
            await member.commit({ok: 0})
        await bench.add_acls(Acl(f"User:{bench.user}", "READ", "topic", bench.ok, permission="deny"))
        denied(await error_of(admin.reset_offsets(group, {ok: 0})), "READ", "topic", bench.ok)
        await bench.allow("DELETE", "group", group)
        denied(await error_of(admin.delete_offsets(group, ok)), "READ", "topic", bench.ok)
        await admin.delete_groups(group)


SCENARIOS: Final[tuple[Scenario, ...]] = (
    topics_and_their_admin,
    offsets_of_groups_and_their_admin,
)

"""What signals, rebalances and the loss of partitions commit in the middle of a record's work, by each kind of loop."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import uuid
from collections.abc import Callable
from typing import Any

import pytest

from aioprod.testing import FakeCluster
from tests.group.test_member import P0, PATIENCE_S, cluster, committed, until_a_rebalance_waits
from tests.group.test_unfinished import FAILING, FORMS, PROTOCOLS, RECORDS, Count, lasts, nothing, options_of


def in_runner(scene: Callable[[asyncio.Runner, FakeCluster], None]) -> None:
    """Play a scene whose main task may be ended by a signal while its brokers stay."""
    with asyncio.Runner() as runner:
        brokers = cluster(partitions=1, records=RECORDS)
        scene(runner, runner.run(brokers.__aenter__()))
        runner.run(brokers.__aexit__(None, None, None))


async def read_the_rest(one: Count) -> None:
    """Process what is left."""
    async with asyncio.timeout(PATIENCE_S), one.member:
        await one.read(nothing)


@pytest.mark.parametrize("protocol", PROTOCOLS)
@pytest.mark.parametrize("form", FORMS)
def test_ctrl_c_commits_what_is_finished(form: str, protocol: str) -> None:
    async def run(one: Count) -> None:
        async with one.member:
            interruption = asyncio.create_task(interrupt(one))
            await one.read(lasts)
            await interruption

    async def interrupt(one: Count) -> None:
        await one.at_work.wait()
        signal.raise_signal(signal.SIGINT)

    def scene(runner: asyncio.Runner, brokers: FakeCluster) -> None:
        one, two = (Count(brokers, form, **options_of(protocol)) for _ in range(2))
        with pytest.raises(KeyboardInterrupt):
            runner.run(run(one))
        assert FAILING not in one.done
        assert committed(brokers).get(P0, 0) == len(one.done)
        runner.run(read_the_rest(two))
        assert one.done + two.done == list(range(RECORDS))

    in_runner(scene)


@pytest.mark.parametrize("protocol", PROTOCOLS)
@pytest.mark.parametrize("form", FORMS)
def test_sigterm_lets_the_work_in_hand_end(form: str, protocol: str) -> None:
    async def run(one: Count) -> None:
        loop, ending = asyncio.get_running_loop(), []
        async with one.member:
            loop.add_signal_handler(signal.SIGTERM, lambda: ending.append(loop.create_task(one.member.close())))

            async def cook() -> None:
                signal.raise_signal(signal.SIGTERM)
                while not ending:
                    await asyncio.sleep(0.01)
                await asyncio.sleep(0.05)

            await one.read(cook)
        loop.remove_signal_handler(signal.SIGTERM)

    def scene(runner: asyncio.Runner, brokers: FakeCluster) -> None:
        one, two = (Count(brokers, form, **options_of(protocol)) for _ in range(2))
        runner.run(run(one))
        assert FAILING in one.done
        assert committed(brokers)[P0] == len(one.done)
        assert one.events.index("revoked") > one.events.index(f"done {one.done[-1]}")
        runner.run(read_the_rest(two))
        assert one.done + two.done == list(range(RECORDS))

    in_runner(scene)


@pytest.mark.parametrize("protocol", PROTOCOLS)
@pytest.mark.parametrize("form", FORMS)
async def test_a_rebalance_waits_for_the_work_in_hand(
    form: str, protocol: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    numbers = iter(range(1000, 0, -1))
    monkeypatch.setattr(uuid, "uuid4", lambda: uuid.UUID(int=next(numbers)))
    by_range: dict[str, Any] = (
        {"group_remote_assignor": "range"} if protocol == "consumer" else {"assignors": ["range"]}
    )
    async with cluster(partitions=1, records=RECORDS) as brokers, asyncio.timeout(PATIENCE_S):
        brokers.state.groups.settings.heartbeat_interval_s = 0.02
        one = Count(brokers, form, client_id="b", **options_of(protocol, **by_range))
        two = Count(brokers, form, client_id="a", **options_of(protocol, **by_range))
        goes_on = asyncio.Event()

        async def cook() -> None:
            await goes_on.wait()

        async with one.member, contextlib.AsyncExitStack() as later:
            first = asyncio.create_task(one.read(cook))
            await one.at_work.wait()
            await later.enter_async_context(two.member)
            second = asyncio.create_task(two.read(nothing))
            await until_a_rebalance_waits(one.member)
            before = len(one.done)
            assert committed(brokers).get(P0, 0) <= before
            assert "revoked" not in one.events
            goes_on.set()
            await second
            # The partition has moved, and the first one waits for another.
            await asyncio.gather(one.member.close(), first)
        assert one.events[-2:] == ["revoked", "loop ended"]
        assert one.done + two.done == list(range(RECORDS))


@pytest.mark.parametrize("protocol", PROTOCOLS)
@pytest.mark.parametrize("form", FORMS)
async def test_lost_partitions_are_read_again_from_what_was_committed(form: str, protocol: str) -> None:
    async with cluster(partitions=1, records=RECORDS) as brokers, asyncio.timeout(PATIENCE_S):
        brokers.state.groups.settings.heartbeat_interval_s = 0.02
        done_when_lost: list[int] = []

        def on_lost(partitions: object) -> None:
            done_when_lost.append(len(one.done))
            assert committed(brokers) == {}

        one = Count(brokers, form, on_lost=on_lost, **options_of(protocol))

        async def cook() -> None:
            if not done_when_lost:
                brokers.state.groups["g"].membership = None
                while one.member.group_metadata.generation_id >= 0:
                    await asyncio.sleep(0.005)

        async with one.member:
            await one.read(cook)
        assert len(done_when_lost) == 1
        assert done_when_lost[0] == (FAILING + 1 if form == "records" else FAILING + 2)
        assert one.done == [*range(done_when_lost[0]), *range(RECORDS)]
        # The loop was left with the last record in hand.
        assert committed(brokers) == {P0: RECORDS - 1}

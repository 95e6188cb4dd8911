"""Every test here runs with asyncio's debug mode; those of `test_end_to_end.py` on both event loops."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping

import pytest
import uvloop

from tests.support.fake_broker import FakeBrokers


def debugging(new_loop: Callable[[], asyncio.AbstractEventLoop]) -> Callable[[], asyncio.AbstractEventLoop]:
    """A loop factory that turns asyncio's debug mode on."""

    def new_debugging_loop() -> asyncio.AbstractEventLoop:
        loop = new_loop()
        loop.set_debug(True)
        return loop

    return new_debugging_loop


def pytest_asyncio_loop_factories(
    config: pytest.Config, item: pytest.Item
) -> Mapping[str, Callable[[], asyncio.AbstractEventLoop]]:
    loops = {"asyncio": debugging(asyncio.new_event_loop)}
    if item.path.name == "test_end_to_end.py":
        loops["uvloop"] = debugging(uvloop.new_event_loop)
    return loops


@pytest.fixture
async def brokers() -> AsyncIterator[FakeBrokers]:
    """One broker."""
    async with FakeBrokers(1) as brokers:
        yield brokers


@pytest.fixture
async def three_brokers() -> AsyncIterator[FakeBrokers]:
    """A cluster."""
    async with FakeBrokers(3) as brokers:
        yield brokers

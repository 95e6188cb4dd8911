"""A command that is interrupted or ended closes its clients in order."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import Callable, Iterator

import pytest

from aioprod.cli.running import fast_loop, run_command


@pytest.fixture
def ctrl_c() -> Iterator[None]:
    """SIGINT as Python handles it, also where the tests run in the background of a shell, which ignores it."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("ctrl_c")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("loop", [None, fast_loop()], ids=["asyncio", "fast"])
def test_a_signal_cancels_the_command_and_waits_for_its_end(
    number: signal.Signals, loop: Callable[[], asyncio.AbstractEventLoop] | None
) -> None:
    steps = []

    async def command() -> int:
        try:
            os.kill(os.getpid(), number)
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0)
            steps.append("closed")
        return 0

    with pytest.raises(KeyboardInterrupt):
        run_command(command(), loop)
    assert steps == ["closed"]


def test_the_status_of_a_command_that_ends_by_itself() -> None:
    async def command() -> int:
        return 1

    assert run_command(command()) == 1


def test_many_records_are_moved_by_uvloop_where_it_is_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    async def name_of_loop() -> str:
        return type(asyncio.get_running_loop()).__module__

    with asyncio.Runner(loop_factory=fast_loop()) as runner:
        assert runner.run(name_of_loop()) == "uvloop"
    monkeypatch.setitem(sys.modules, "uvloop", None)
    assert fast_loop() is None

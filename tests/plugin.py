"""What holds for every test run: which form it has, that compiled modules are those of the sources, which terminal
the tests see, what is printed.

In CI a skipped test is a failed run, and no test is left out for what the machine lacks.
"""

from __future__ import annotations

import contextlib
import gc
import os
import signal
from collections import Counter, defaultdict
from collections.abc import Generator, Iterator
from pathlib import Path, PurePosixPath
from typing import Final

import pytest
from hypothesis import settings

import aioprod
from aioprod.net import slow_calls
from tests.support.length import LONG, by_length
from tools.build_ext import build_fault
from tools.lanes import add_tests

# The short form plays the same examples in each run, so that a change fails by its own fault; the long one finds more.
settings.register_profile("aioprod", deadline=None, max_examples=by_length(40, 100), derandomize=not LONG)
settings.load_profile("aioprod")

# Asserts outside of test modules tell what they compared, too.
pytest.register_assert_rewrite(
    "tests.support.broker_scenarios", "tests.support.acl_scenarios", "tests.support.zone_scenarios"
)

NO_SKIPS: Final = bool(os.environ.get("AIOPROD_NO_SKIPS"))
_LACKS = pytest.StashKey[Counter[str]]()
_OF_TERMINALS: Final = ("TERM", "COLUMNS", "LINES", "NO_COLOR", "FORCE_COLOR", "TTY_COMPATIBLE", "TTY_INTERACTIVE")


@pytest.fixture(scope="session", autouse=True)
def any_terminal() -> Iterator[None]:
    """Whoever runs the tests on whatever terminal, or without one: they see the same, and a test may set another."""
    with pytest.MonkeyPatch.context() as environment:
        for name in _OF_TERMINALS:
            environment.delenv(name, raising=False)
        environment.setenv("TERM", "xterm")
        yield


@pytest.fixture(scope="session", autouse=True)
def any_shell() -> None:
    """A shell ignores SIGINT in what it starts in the background, and each program of a test would inherit that."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """No start is called slow: for tests that compare what is logged, on a machine where one takes a second."""
    monkeypatch.setattr(slow_calls, "START_QUIET_S", 60.0)


def pytest_configure(config: pytest.Config) -> None:
    """Refuse to test modules that were compiled from other sources than these."""
    with contextlib.chdir(config.rootpath):
        fault = build_fault(compiled=aioprod.COMPILED)
    if fault is not None:
        raise pytest.UsageError(fault)


def pytest_ignore_collect(collection_path: Path) -> bool | None:
    """Leave out what compares the compiled modules with the interpreted ones where only the latter are there."""
    return True if not aioprod.COMPILED and collection_path.parts[-2:] == ("tests", "builds") else None


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Keep the garbage collector from walking again and again through what thousands of tests are made of."""
    gc.disable()
    result = yield
    gc.collect()
    gc.freeze()
    gc.enable()
    return result


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(item: pytest.Item, nextitem: pytest.Item | None) -> Generator[None, object, object]:
    """Freeze what a file leaves (reports above all): the explicit collections of later tests would walk through it."""
    result = yield
    if nextitem is not None and nextitem.path != item.path:
        gc.collect()
        gc.freeze()
    return result


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave the tests that are marked as long to the long form, and out what this machine can't run."""
    lacks = config.stash.setdefault(_LACKS, Counter())
    kept: list[pytest.Item] = []
    left_out: list[pytest.Item] = []
    for item in items:
        is_long = not LONG and item.get_closest_marker("long") is not None
        lack = None if is_long or NO_SKIPS else _lacks(item)
        if lack is not None:
            lacks[lack] += 1
        (left_out if is_long or lack is not None else kept).append(item)
    if left_out:
        config.hook.pytest_deselected(items=left_out)
        items[:] = kept


def _lacks(item: pytest.Item) -> str | None:
    """What this machine lacks for a test."""
    return next(
        (lack for marker in item.iter_markers("needs") if (lack := marker.kwargs["missing"]()) is not None), None
    )


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """Print how long each room took, so that one that becomes slow is seen, and what this machine could not run.

    pytest's own durations name the tests.
    """
    for lack, count in config.stash.get(_LACKS, Counter[str]()).items():
        terminalreporter.write_line(f"{count} tests are left out on this machine: {lack}")
    seconds: defaultdict[str, float] = defaultdict(float)
    tests: Counter[str] = Counter()
    for reports in terminalreporter.stats.values():
        for report in reports:
            if isinstance(report, pytest.TestReport):
                room = "/".join(PurePosixPath(report.nodeid.partition("::")[0]).parts[:2])
                seconds[room] += report.duration
                tests[room] += report.when == "call"
    terminalreporter.section("time of each room")
    for room, spent in sorted(seconds.items(), key=lambda item: -item[1]):
        terminalreporter.write_line(f"{spent:>8.1f} s {tests[room]:>6,} tests  {room}")


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    """Tell the lane how many tests it ran; with AIOPROD_NO_SKIPS set, one that skipped any has failed."""
    add_tests(session.testscollected)
    reporter = session.config.pluginmanager.get_plugin("terminalreporter")
    skipped = len(reporter.stats.get("skipped", ())) if reporter is not None else 0
    if skipped and NO_SKIPS and session.exitstatus == pytest.ExitCode.OK:
        session.exitstatus = pytest.ExitCode.TESTS_FAILED

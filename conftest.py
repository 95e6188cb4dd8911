"""What holds for every test run: which form it has, that compiled modules are those of the sources, which terminal
the tests see, what is printed.

In CI a skipped test is a failed run.
"""

from __future__ import annotations

import contextlib
import gc
import os
from collections import Counter, defaultdict
from collections.abc import Generator, Iterator
from pathlib import PurePosixPath

import pytest
from hypothesis import settings

import aioprod
from build_ext import build_fault
from tests.support.length import LONG, by_length

# The short form plays the same examples in each run, so that a change fails by its own fault; the long one finds more.
settings.register_profile("aioprod", deadline=None, max_examples=by_length(40, 100), derandomize=not LONG)
settings.load_profile("aioprod")

# Asserts outside of test modules tell what they compared, too.
pytest.register_assert_rewrite("tests.support.broker_scenarios", "tests.support.acl_scenarios")

collect_ignore = [] if aioprod.COMPILED else ["tests/builds"]
"""What compares the compiled modules with the interpreted ones needs both."""


_OF_TERMINALS = ("TERM", "COLUMNS", "LINES", "NO_COLOR", "FORCE_COLOR", "TTY_COMPATIBLE", "TTY_INTERACTIVE")


@pytest.fixture(scope="session", autouse=True)
def any_terminal() -> Iterator[None]:
    """Whoever runs the tests on whatever terminal, or without one: they see the same, and a test may set another."""
    with pytest.MonkeyPatch.context() as environment:
        for name in _OF_TERMINALS:
            environment.delenv(name, raising=False)
        environment.setenv("TERM", "xterm")
        yield


def pytest_configure(config: pytest.Config) -> None:
    """Refuse to test modules that were compiled from other sources than these."""
    with contextlib.chdir(config.rootpath):
        fault = build_fault(compiled=aioprod.COMPILED)
    if fault is not None:
        raise pytest.UsageError(fault)


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Keep the garbage collector from walking again and again through what thousands of tests are made of."""
    gc.disable()
    result = yield
    gc.collect()
    gc.freeze()
    gc.enable()
    return result


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave the tests that are marked as long to the long form."""
    if LONG:
        return
    left_out = [item for item in items if item.get_closest_marker("long") is not None]
    if left_out:
        config.hook.pytest_deselected(items=left_out)
        items[:] = [item for item in items if item.get_closest_marker("long") is None]


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Print how long each room took, so that one that becomes slow is seen; pytest's own durations name the tests."""
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
    """With AIOPROD_NO_SKIPS set, turn a run that left tests out into a failed one."""
    reporter = session.config.pluginmanager.get_plugin("terminalreporter")
    skipped = len(reporter.stats.get("skipped", ())) if reporter is not None else 0
    if skipped and os.environ.get("AIOPROD_NO_SKIPS") and session.exitstatus == pytest.ExitCode.OK:
        session.exitstatus = pytest.ExitCode.TESTS_FAILED

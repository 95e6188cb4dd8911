"""What holds for every test run: compiled modules are those of the sources; in CI a skipped test is a failed run."""

from __future__ import annotations

import contextlib
import os

import pytest
from hypothesis import settings

import aioprod
from setup import build_fault

settings.register_profile("aioprod", deadline=None)
settings.load_profile("aioprod")

# Asserts outside of test modules tell what they compared, too.
pytest.register_assert_rewrite("tests.support.broker_scenarios")

collect_ignore = [] if aioprod.COMPILED else ["tests/legs"]
"""What compares the compiled modules with the interpreted ones needs both."""


def pytest_configure(config: pytest.Config) -> None:
    """Refuse to test modules that were compiled from other sources than these."""
    with contextlib.chdir(config.rootpath):
        fault = build_fault(compiled=aioprod.COMPILED)
    if fault is not None:
        raise pytest.UsageError(fault)


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    """With AIOPROD_NO_SKIPS set, turn a run that left tests out into a failed one."""
    reporter = session.config.pluginmanager.get_plugin("terminalreporter")
    skipped = len(reporter.stats.get("skipped", ())) if reporter is not None else 0
    if skipped and os.environ.get("AIOPROD_NO_SKIPS") and session.exitstatus == pytest.ExitCode.OK:
        session.exitstatus = pytest.ExitCode.TESTS_FAILED

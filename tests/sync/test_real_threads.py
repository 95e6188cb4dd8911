"""In a process that gevent or eventlet has patched there is one clear error."""

from __future__ import annotations

import sys
from types import SimpleNamespace

import pytest

from aioprod.errors import UsageError
from aioprod.sync import Producer
from aioprod.types import DeliveryReport


@pytest.mark.parametrize(
    ("module", "check", "patched", "text"),
    [
        ("gevent.monkey", "is_module_patched", {"threading", "socket"}, "gevent has patched threading, socket in this"),
        ("gevent.monkey", "is_module_patched", {"socket", "subprocess"}, "gevent has patched socket in this process"),
        ("eventlet.patcher", "is_monkey_patched", {"thread"}, "eventlet has patched thread in this process"),
    ],
)
def test_patched_threads_are_named(
    monkeypatch: pytest.MonkeyPatch, module: str, check: str, patched: set[str], text: str
) -> None:
    monkeypatch.setitem(sys.modules, module, SimpleNamespace(**{check: patched.__contains__}))
    with pytest.raises(UsageError, match=text) as raised:
        Producer("localhost:9092")
    assert "gthread" in str(raised.value)


def test_patched_after_it_was_made(monkeypatch: pytest.MonkeyPatch) -> None:
    """As by gunicorn's gevent workers, where the application is loaded first: then they fork, and patch."""
    producer = Producer("localhost:9092")
    producer._begin_empty()
    monkeypatch.setitem(sys.modules, "gevent.monkey", SimpleNamespace(is_module_patched=lambda name: True))
    with pytest.raises(UsageError, match="gevent has patched"):
        producer.send_nowait("t", b"v")


def test_packages_that_patch_nothing_here(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(
        sys.modules, "gevent.monkey", SimpleNamespace(is_module_patched=lambda name: name == "subprocess")
    )
    assert Producer("localhost:9092").close() == DeliveryReport()

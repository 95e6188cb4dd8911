"""Kafka brokers, real and fake, and a faulty network, for tests: `KafkaCluster`, `FakeCluster`, `TcpProxy`; pytest
fixtures in `plugin`.

The names are loaded when they are used, since pytest imports this package for its plugin wherever aioprod is installed.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from aioprod.testing.cluster import KafkaCluster
    from aioprod.testing.errors import KafkaStartError, KafkaUnavailableError, ToolError
    from aioprod.testing.fake import FakeCluster
    from aioprod.testing.proxy import Direction, TcpProxy

__all__ = [
    "Direction",
    "FakeCluster",
    "KafkaCluster",
    "KafkaStartError",
    "KafkaUnavailableError",
    "TcpProxy",
    "ToolError",
]

_MODULES = {
    "Direction": "proxy",
    "FakeCluster": "fake",
    "KafkaCluster": "cluster",
    "KafkaStartError": "errors",
    "KafkaUnavailableError": "errors",
    "TcpProxy": "proxy",
    "ToolError": "errors",
}


def __getattr__(name: str) -> object:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_MODULES[name]}"), name)

"""Real Kafka brokers and a faulty network, for tests: `KafkaCluster`, `TcpProxy`; pytest fixtures in `plugin`.

The names are loaded when they are used, since pytest imports this package for its plugin wherever aioprod is installed.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from aioprod.testing.cluster import KafkaCluster
    from aioprod.testing.errors import KafkaStartError, KafkaUnavailableError, ToolError
    from aioprod.testing.proxy import Direction, TcpProxy

__all__ = ["Direction", "KafkaCluster", "KafkaStartError", "KafkaUnavailableError", "TcpProxy", "ToolError"]

_MODULES = {
    "Direction": "proxy",
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

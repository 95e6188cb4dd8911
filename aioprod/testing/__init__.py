"""For tests: Kafka brokers, real and fake (`KafkaCluster`, `FakeCluster`), a faulty network (`TcpProxy`), a schema
registry (`FakeSchemaRegistry`), `producer_mock` and `member_mock`. The pytest fixtures are in `plugin.py`.

Names are imported when they are used, since pytest imports this package for its plugin wherever aioprod is installed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from aioprod._lazy import imported_on_use

if TYPE_CHECKING:
    from aioprod.testing.acls import Acl
    from aioprod.testing.errors import (
        KafkaStartError,
        KafkaUnavailableError,
        ToolError,
        UnusedFaultError,
        UnusedFaultWarning,
    )
    from aioprod.testing.fake import FakeCluster
    from aioprod.testing.kafka.cluster import KafkaCluster
    from aioprod.testing.mocks import member_mock, producer_mock
    from aioprod.testing.proxy import Direction, TcpProxy
    from aioprod.testing.schema_registry import FakeSchemaRegistry
    from aioprod.testing.security import Security

__all__ = [
    "Acl",
    "Direction",
    "FakeCluster",
    "FakeSchemaRegistry",
    "KafkaCluster",
    "KafkaStartError",
    "KafkaUnavailableError",
    "Security",
    "TcpProxy",
    "ToolError",
    "UnusedFaultError",
    "UnusedFaultWarning",
    "member_mock",
    "producer_mock",
]

if not TYPE_CHECKING:
    __getattr__, __dir__ = imported_on_use(
        __name__,
        {
            "Acl": "acls",
            "Direction": "proxy",
            "FakeCluster": "fake",
            "FakeSchemaRegistry": "schema_registry",
            "KafkaCluster": "kafka.cluster",
            "KafkaStartError": "errors",
            "KafkaUnavailableError": "errors",
            "Security": "security",
            "TcpProxy": "proxy",
            "ToolError": "errors",
            "UnusedFaultError": "errors",
            "UnusedFaultWarning": "errors",
            "member_mock": "mocks",
            "producer_mock": "mocks",
        },
    )

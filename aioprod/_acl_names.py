"""What Kafka's ACLs are about, by Kafka's names."""

from __future__ import annotations

from typing import Literal, TypeAlias

__all__ = ["Operation", "ResourceType"]

ResourceType: TypeAlias = Literal["topic", "group", "cluster", "transactional_id", "delegation_token"]
Operation: TypeAlias = Literal[
    "READ",
    "WRITE",
    "CREATE",
    "DELETE",
    "ALTER",
    "DESCRIBE",
    "CLUSTER_ACTION",
    "DESCRIBE_CONFIGS",
    "ALTER_CONFIGS",
    "IDEMPOTENT_WRITE",
]
"""The operations that they allow or deny."""

"""The admin client: topics, their settings, partitions, offsets and records; brokers and their folders; groups."""

from __future__ import annotations

from typing import TYPE_CHECKING

from aioprod._lazy import imported_on_use

if TYPE_CHECKING:
    from aioprod.admin.client import INSTEAD, Admin, ClusterDescription
    from aioprod.admin.configs import ConfigEntry, ConfigKind
    from aioprod.admin.groups import GroupDescription, GroupMember
    from aioprod.admin.log_dirs import LogDir, ReplicaSize
    from aioprod.admin.offset_resets import OffsetChange
    from aioprod.admin.topics import DeleteByName
    from aioprod.group.listing import GroupListing

__all__ = [
    "INSTEAD",
    "Admin",
    "ClusterDescription",
    "ConfigEntry",
    "ConfigKind",
    "DeleteByName",
    "GroupDescription",
    "GroupListing",
    "GroupMember",
    "LogDir",
    "OffsetChange",
    "ReplicaSize",
]

if not TYPE_CHECKING:
    __getattr__, __dir__ = imported_on_use(
        __name__,
        {
            "INSTEAD": "client",
            "Admin": "client",
            "ClusterDescription": "client",
            "ConfigEntry": "configs",
            "ConfigKind": "configs",
            "DeleteByName": "topics",
            "GroupDescription": "groups",
            "GroupListing": "client",
            "GroupMember": "groups",
            "LogDir": "log_dirs",
            "OffsetChange": "offset_resets",
            "ReplicaSize": "log_dirs",
        },
    )

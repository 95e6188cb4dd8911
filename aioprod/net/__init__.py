"""The network: the only sockets of aioprod, and a client that keeps its connections and its metadata up to date."""

from __future__ import annotations

from typing import TYPE_CHECKING

from aioprod._lazy import imported_on_use
from aioprod.net.client import Client
from aioprod.net.connection import BrokerConnection
from aioprod.net.events import ClientListener
from aioprod.net.link import BrokerLink, LinkState
from aioprod.net.settings import ClientSettings

if TYPE_CHECKING:
    from aioprod.net.coordinator import Coordinator

__all__ = [
    "BrokerConnection",
    "BrokerLink",
    "Client",
    "ClientListener",
    "ClientSettings",
    "Coordinator",
    "LinkState",
]

if not TYPE_CHECKING:
    __getattr__, __dir__ = imported_on_use(__name__, {"Coordinator": "coordinator"})

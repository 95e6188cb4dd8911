"""The network: the only sockets of aioprod, and a client that keeps them connected to the right brokers."""

from __future__ import annotations

from aioprod.net.client import Client, ClientListener, more_telling
from aioprod.net.connection import BrokerConnection
from aioprod.net.coordinator import Coordinator
from aioprod.net.pool import BrokerLink, LinkState
from aioprod.net.settings import ClientSettings

__all__ = [
    "BrokerConnection",
    "BrokerLink",
    "Client",
    "ClientListener",
    "ClientSettings",
    "Coordinator",
    "LinkState",
    "more_telling",
]

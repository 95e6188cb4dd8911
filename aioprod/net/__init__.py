"""The network: the only sockets of aioprod, and a client that keeps its connections and its metadata up to date."""

from __future__ import annotations

from aioprod.net.client import Client
from aioprod.net.connection import BrokerConnection
from aioprod.net.events import ClientListener
from aioprod.net.link import BrokerLink, LinkState
from aioprod.net.settings import ClientSettings

__all__ = [
    "BrokerConnection",
    "BrokerLink",
    "Client",
    "ClientListener",
    "ClientSettings",
    "LinkState",
]

"""From host names to IP addresses. Each attempt resolves again, so a broker that moved is found."""

from __future__ import annotations

import asyncio
import socket
from typing import NamedTuple, TypeAlias

from aioprod._short_reprs import shown_address
from aioprod.net.settings import Address

__all__ = ["Endpoint", "canonical_addresses", "is_this_machine", "resolve", "text_of"]

SocketAddress: TypeAlias = tuple[str, int] | tuple[str, int, int, int] | tuple[int, bytes]


class Endpoint(NamedTuple):
    """One IP address of a host name, in the form that sockets take."""

    family: socket.AddressFamily
    address: SocketAddress

    def __str__(self) -> str:
        return str(self.address[0])


def text_of(address: Address) -> str:
    """`host:port`, with an IPv6 address in brackets."""
    return shown_address(*address)


async def resolve(loop: asyncio.AbstractEventLoop, address: Address) -> list[Endpoint]:
    """All IP addresses of a host in the order of preference of the system; OSError if there are none."""
    host, port = address
    rows = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM, proto=socket.IPPROTO_TCP)
    return list(dict.fromkeys(Endpoint(family, target) for family, _, _, _, target in rows))


async def canonical_addresses(loop: asyncio.AbstractEventLoop, addresses: tuple[Address, ...]) -> tuple[Address, ...]:
    """The canonical host names behind `addresses`, one for each IP address (KIP-235).

    A name that can't be resolved stays as it is: the error of connecting to it will say why.
    """
    found: dict[Address, None] = {}
    for address in addresses:
        try:
            for endpoint in await resolve(loop, address):
                host, _ = await loop.getnameinfo(endpoint.address)  # type: ignore[arg-type]  # typeshed lacks IPv6 tuples
                found[host, address[1]] = None
        except Exception:  # of any type: connecting fails in the same way, and says why
            found[address] = None
    return tuple(found)


def is_this_machine(host: str) -> bool:
    """Whether `host` is a loopback name or address."""
    return host.rstrip(".") in ("localhost", "::1") or host.startswith("127.")

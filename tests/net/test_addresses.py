from __future__ import annotations

import asyncio
import socket
from typing import Any, cast

import pytest

from aioprod.cluster import Node
from aioprod.net.addresses import Endpoint, canonical_addresses, resolve, text_of


class Names:
    """Stands in for the loop's look-ups."""

    def __init__(self, forward: dict[str, list[str]], backward: dict[str, str]) -> None:
        self.forward = forward
        self.backward = backward

    async def getaddrinfo(self, host: str, port: int, **hints: Any) -> list[Any]:
        if host not in self.forward:
            raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (ip, port)) for ip in self.forward[host]]

    async def getnameinfo(self, address: tuple[str, int], flags: int = 0) -> tuple[str, str]:
        return self.backward[address[0]], "kafka"


def loop_with(forward: dict[str, list[str]], backward: dict[str, str]) -> asyncio.AbstractEventLoop:
    return cast(asyncio.AbstractEventLoop, Names(forward, backward))


@pytest.mark.parametrize(
    ("host", "text"),
    [
        ("localhost", "localhost:9092"),
        ("::1", "[::1]:9092"),
        ("evil\n\x1b[31mERROR\x07", "evil??[31mERROR?:9092"),
        ("x" * 30_000, f"{'x' * 255}:9092"),
    ],
)
def test_addresses_read_as_they_are_written(host: str, text: str) -> None:
    assert text_of((host, 9092)) == Node(1, host, 9092).address == text


async def test_all_addresses_of_a_name_are_found_once_and_in_order() -> None:
    loop = loop_with({"kafka": ["10.0.0.2", "10.0.0.1", "10.0.0.2"]}, {})
    found = await resolve(loop, ("kafka", 9092))
    assert found == [Endpoint(socket.AF_INET, ("10.0.0.2", 9092)), Endpoint(socket.AF_INET, ("10.0.0.1", 9092))]
    assert str(found[0]) == "10.0.0.2"


async def test_the_real_loop_can_do_it() -> None:
    found = await resolve(asyncio.get_running_loop(), ("127.0.0.1", 9092))
    assert found == [Endpoint(socket.AF_INET, ("127.0.0.1", 9092))]


async def test_canonical_names_stand_for_each_address() -> None:
    loop = loop_with(
        {"kafka": ["10.0.0.1", "10.0.0.2"], "other": ["10.0.0.2"]}, {"10.0.0.1": "b1.example", "10.0.0.2": "b2.example"}
    )
    found = await canonical_addresses(loop, (("kafka", 9092), ("other", 9092), ("unknown", 9093)))
    assert found == (("b1.example", 9092), ("b2.example", 9092), ("unknown", 9093))

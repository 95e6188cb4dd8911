"""bootstrap.servers: each form that is accepted, and the sentence for each that is not."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aioprod.config import addresses_of, parse_address
from aioprod.errors import ConfigError


@pytest.mark.parametrize(
    ("given_address", "expected"),
    [
        ("localhost:9092", ("localhost", 9092)),
        (" kafka-1.example.org:1 ", ("kafka-1.example.org", 1)),
        ("under_score:65535", ("under_score", 65535)),
        ("127.0.0.1:9092", ("127.0.0.1", 9092)),
        ("[::1]:9092", ("::1", 9092)),
        ("[fe80::1%eth0]:9092", ("fe80::1%eth0", 9092)),
        ("PLAINTEXT://h:9092", ("h", 9092)),
        ("plaintext://[::1]:9092", ("::1", 9092)),
    ],
)
def test_parse_address(given_address: str, expected: tuple[str, int]) -> None:
    assert parse_address(given_address) == expected


@pytest.mark.parametrize(
    ("address", "what"),
    [
        ("localhost", "has no port"),
        ("localhost:", "has no port"),
        ("[::1]", "has no port"),
        ("h:0", "has port '0'"),
        ("h:65536", "has port '65536'"),
        ("h:-1", "has port '-1'"),
        ("h:http", "has port 'http'"),
        ("h:٣", "has port '٣'"),
        (":9092", "names no host"),
        ("", "names no host"),
        ("::1:9092", "has more than one colon"),
        ("[::1:9092", "has more than one colon"),
        ("[nonsense]:9092", "has no IPv6 address between its brackets"),
        ("a b:9092", "has characters that no host name has"),
        ("user@h:9092", "has characters that no host name has"),
        ("h/x:9092", "has characters that no host name has"),
        ("SSL://h:9092", "starts with SSL://"),
        ("http://h:9092", "starts with http://"),
    ],
)
def test_refused_addresses(address: str, what: str) -> None:
    with pytest.raises(ConfigError) as caught:
        parse_address(address)
    assert caught.value.message == f"The server address {address!r} in bootstrap.servers {what}."
    assert caught.value.hint


@pytest.mark.parametrize(
    "servers", ["a:1,[::1]:2", " a:1 , [::1]:2 ,", ["a:1", "[::1]:2"], ("PLAINTEXT://a:1", "[::1]:2")]
)
def test_addresses_of(servers: object) -> None:
    assert addresses_of(servers) == ("a:1", "[::1]:2")


@pytest.mark.parametrize("servers", ["", " , ", [], ()])
def test_no_server_at_all(servers: object) -> None:
    with pytest.raises(ConfigError, match="names no server"):
        addresses_of(servers)


@pytest.mark.parametrize("servers", ["a:1,A:1", ["a:1", "PLAINTEXT://a:1"], "[::1]:1,[::1]:1"])
def test_the_same_server_twice(servers: object) -> None:
    with pytest.raises(ConfigError, match="twice"):
        addresses_of(servers)


@pytest.mark.parametrize("servers", [5, None, b"a:1", ["a:1", 5], [("a", 1)]])
def test_what_is_no_address(servers: object) -> None:
    with pytest.raises(ConfigError, match="must be strings of host:port"):
        addresses_of(servers)


@settings(max_examples=100)
@given(st.text(max_size=20) | st.text(alphabet="a1:[].%/-", max_size=20))
def test_any_text_is_an_address_or_refused(address: str) -> None:
    try:
        host, port = parse_address(address)
    except ConfigError:
        return
    assert host
    assert 1 <= port <= 65535

"""Addresses of servers, `host:port`: their syntax, and the errors for anything else."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any, Final

from aioprod.errors import ConfigError

_PORT_MAX: Final = 65535

_SCHEME: Final = re.compile(r"([A-Za-z][A-Za-z0-9+._-]*)://", re.ASCII)
_HOST: Final = re.compile(r"[0-9A-Za-z._-]+", re.ASCII)
_BRACKETED: Final = re.compile(r"\[([^\[\]]*)\](?::(.*))?")


def parse_address(address: str) -> tuple[str, int]:
    """Split "host:port", or "[::1]:port", into host and port; an IPv6 host comes without its brackets.

    A leading "PLAINTEXT://" is dropped, as in Java. Raises ConfigError.
    """
    rest = _without_scheme(address.strip())
    if bracketed := _BRACKETED.fullmatch(rest):
        host, port = bracketed[1], bracketed[2] or ""
        _check_ipv6(address, host)
    else:
        host, _, port = rest.rpartition(":") if ":" in rest else (rest, "", "")
        if ":" in host:
            raise _invalid(address, "has more than one colon", "Write an IPv6 address in brackets: [::1]:9092.")
        if not host:
            raise _invalid(address, "names no host", "Write it as host:port.")
        if not _HOST.fullmatch(host):
            raise _invalid(address, "has characters that no host name has", "Write it as host:port.")
    return host, _port(address, port)


def addresses_of(given: object) -> tuple[str, ...]:
    """Return "host:port" of each server in `given`, a comma separated string or a sequence of strings.

    Raises ConfigError for an address that can't be used, one that is given twice, or none at all.
    """
    servers: list[str] = []
    for address in _each(given):
        host, port = parse_address(address)
        server = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
        if server.lower() in (other.lower() for other in servers):
            raise ConfigError(f"bootstrap.servers names {server} twice.", hint="Name each server once.")
        servers.append(server)
    if not servers:
        raise ConfigError("bootstrap.servers names no server.", hint="Name at least one, such as localhost:9092.")
    return tuple(servers)


def _each(given: object) -> Iterable[str]:
    if isinstance(given, str):
        return [part for part in given.split(",") if part.strip()]
    members: Iterable[Any] = given if isinstance(given, Iterable) and not isinstance(given, bytes) else [given]
    return [_string(member) for member in members]


def _string(member: Any) -> str:
    if isinstance(member, str):
        return member
    raise ConfigError(
        f"bootstrap.servers must be strings of host:port, not {member!r}.",
        hint='Write "host:9092,other:9092" or a list of such strings.',
    )


def _without_scheme(address: str) -> str:
    scheme = _SCHEME.match(address)
    if scheme is None:
        return address
    if scheme[1].upper() != "PLAINTEXT":
        raise _invalid(address, f"starts with {scheme[0]}", "Write host:port; security.protocol chooses the protocol.")
    return address[scheme.end() :]


def _check_ipv6(address: str, host: str) -> None:
    from ipaddress import IPv6Address  # Few addresses have brackets.

    try:
        IPv6Address(host)
    except ValueError as error:
        raise _invalid(address, "has no IPv6 address between its brackets", "Write it as [::1]:9092.") from error


def _port(address: str, port: str) -> int:
    if not port:
        raise _invalid(address, "has no port", "Write it as host:port; Kafka's usual port is 9092.")
    if not re.fullmatch(r"[0-9]{1,5}", port, re.ASCII) or not 1 <= int(port) <= _PORT_MAX:
        raise _invalid(address, f"has port {port!r}", f"A port is a number from 1 to {_PORT_MAX}.")
    return int(port)


def _invalid(address: str, what: str, hint: str) -> ConfigError:
    return ConfigError(f"The server address {address!r} in bootstrap.servers {what}.", hint=hint)

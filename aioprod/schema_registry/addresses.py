"""The addresses of a schema registry."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from urllib.parse import unquote, urlsplit

from aioprod.errors import ConfigError

__all__ = ["Address", "Addresses", "addresses_of"]


@dataclass(frozen=True, slots=True)
class Address:
    """The URL of a registry without log-in, and the user and password that it contained, None without them."""

    url: str
    log_in: tuple[str, str] | None = field(default=None, repr=False)

    @property
    def is_secure(self) -> bool:
        """Whether it wants TLS."""
        return self.url.startswith("https:")


class Addresses:
    """The addresses of registries that share their schemas; requests begin with the one that works."""

    def __init__(self, addresses: tuple[Address, ...]) -> None:
        self._addresses = addresses
        self._place = 0

    def __str__(self) -> str:
        return ", ".join(address.url for address in self._addresses)

    def __len__(self) -> int:
        return len(self._addresses)

    @property
    def is_secure(self) -> bool:
        """Whether one of them wants TLS."""
        return any(address.is_secure for address in self._addresses)

    def in_order(self) -> tuple[Address, ...]:
        """All of them, in the order in which a request tries them."""
        return self._addresses[self._place :] + self._addresses[: self._place]

    def advance(self, failed: Address) -> None:
        """Let requests begin with the next one, unless they do since `failed` was the first."""
        if failed == self._addresses[self._place]:
            self._place = (self._place + 1) % len(self._addresses)

    def check_shared_log_in(self) -> None:
        """Raise ConfigError if one log-in would be sent with TLS and without it; an address may have its own."""
        if len({address.is_secure for address in self._addresses if address.log_in is None}) > 1:
            raise ConfigError(
                "The schema registry's URLs are of http:// and of https://, and the log-in would be sent to both: "
                "use https:// for all, or put the log-in into the URLs that it is for."
            )


def addresses_of(urls: object) -> Addresses:
    """The addresses of one URL, several with commas between them, or a list; raises ConfigError.

    A log-in in a URL (`https://user:password@host`) is for that address alone.
    """
    if isinstance(urls, (bytes, bytearray)) or not isinstance(urls, Iterable):
        raise ConfigError(
            f"The schema registry's address is of type {type(urls).__name__}: give a URL, http://host:port, or a list."
        )
    addresses = []
    for url in urls.split(",") if isinstance(urls, str) else urls:
        if not isinstance(url, str):
            raise ConfigError(
                f"A schema registry's address is of type {type(url).__name__}: give a URL, http://host:port."
            )
        addresses.append(_parsed(url.strip()))
    if not addresses:
        raise ConfigError("No schema registry is named: give its URL, http://host:port.")
    return Addresses(tuple(addresses))


def _parsed(url: str) -> Address:
    try:
        parts = urlsplit(url)
        host, _ = parts.hostname, parts.port
    except ValueError:
        host, parts = None, urlsplit("")
    # An @ in the path ends a password that has a bare slash.
    if parts.scheme not in ("http", "https") or not host or "@" in parts.path or parts.query or parts.fragment:
        # The URL itself is not shown: it may contain a password.
        raise ConfigError("A schema registry's address is not a URL of the form http://host:port or https://host/path.")
    log_in = None
    if parts.username is not None:
        log_in = (unquote(parts.username), unquote(parts.password or ""))
    bare = parts._replace(netloc=parts.netloc.rpartition("@")[2], path=parts.path.rstrip("/"))
    return Address(bare.geturl(), log_in)

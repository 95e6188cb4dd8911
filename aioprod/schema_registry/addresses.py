"""The addresses of a schema registry."""

from __future__ import annotations

from collections.abc import Iterable
from urllib.parse import unquote, urlsplit

from aioprod.errors import ConfigError

__all__ = ["Addresses", "addresses_of"]


class Addresses:
    """The URLs of registries that share their schemas, without log-in; `current` is the one that works."""

    def __init__(self, urls: tuple[str, ...]) -> None:
        self._urls = urls
        self._place = 0

    def __str__(self) -> str:
        return ", ".join(self._urls)

    @property
    def current(self) -> str:
        """The URL for the next request."""
        return self._urls[self._place]

    @property
    def is_secure(self) -> bool:
        """Whether one of them wants TLS."""
        return any(url.startswith("https:") for url in self._urls)

    def advance(self, failed: str) -> None:
        """Use the next URL, unless another request has done so since `failed` was the current one."""
        if failed == self.current:
            self._place = (self._place + 1) % len(self._urls)


def addresses_of(urls: str | Iterable[str]) -> tuple[Addresses, tuple[str, str] | None]:
    """The addresses, and the log-in that one of them contains (`https://user:password@host`), else None.

    `urls` is one URL, several with commas between them, or a list. Raises ConfigError.
    """
    listed = urls.split(",") if isinstance(urls, str) else urls
    cleaned = []
    log_ins = set()
    for url in listed:
        if not isinstance(url, str):
            raise ConfigError(f"A schema registry's address is a {type(url).__name__}: give a URL, http://host:port.")
        address, log_in = _parsed(url.strip())
        cleaned.append(address)
        if log_in is not None:
            log_ins.add(log_in)
    if not cleaned:
        raise ConfigError("No schema registry is named: give its URL, http://host:port.")
    if len(log_ins) > 1:
        raise ConfigError("The schema registry's URLs contain different log-ins: give username and password instead.")
    return Addresses(tuple(cleaned)), next(iter(log_ins), None)


def _parsed(url: str) -> tuple[str, tuple[str, str] | None]:
    try:
        parts = urlsplit(url)
        host, _ = parts.hostname, parts.port
    except ValueError:
        host, parts = None, urlsplit("")
    if parts.scheme not in ("http", "https") or not host or parts.query or parts.fragment:
        # The URL itself is not shown: it may contain a password.
        raise ConfigError("A schema registry's address is no URL of the form http://host:port or https://host/path.")
    log_in = None
    if parts.username is not None:
        log_in = (unquote(parts.username), unquote(parts.password or ""))
    address = parts._replace(netloc=parts.netloc.rpartition("@")[2], path=parts.path.rstrip("/"))
    return address.geturl(), log_in

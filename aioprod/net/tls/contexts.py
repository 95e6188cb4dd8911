"""TLS contexts of a client: built from the settings, in a thread, and rebuilt when one of their files has changed."""

from __future__ import annotations

import asyncio
import math
import os
import ssl
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Final, TypeAlias

from aioprod._logger import Logger
from aioprod.config import SecurityConfig
from aioprod.config._secrets import secret_of
from aioprod.errors import ConfigError, TlsError
from aioprod.net.one_thread import OneThread
from aioprod.net.tls.certificates import Validity, validity
from aioprod.net.tls.failures import handshake_failure, tls_failure
from aioprod.net.tls.stores import key_store, trust_store
from aioprod.wire.buffer import Buffer

__all__ = ["Files", "Tls", "TlsContexts"]

_logger = Logger("aioprod.net")

_TIMEOUT_S: Final = 10.0
_DAY_S: Final = 86400.0
_WARN_BEFORE_S: Final = 14 * _DAY_S

_JOINED_MAX: Final = 16384
"""Over TLS shorter parts are joined: each write makes a TLS record, which costs more than copying."""

Files: TypeAlias = tuple[tuple[object, ...], ...]
"""Identifies the state of files, to detect changes."""

_VERSIONS: Final = {"TLSv1.2": ssl.TLSVersion.TLSv1_2, "TLSv1.3": ssl.TLSVersion.TLSv1_3}


@dataclass(frozen=True, slots=True)
class Tls:
    """A context, and its description for errors: which CAs it trusts, whether it has a certificate and until when."""

    context: ssl.SSLContext
    trusted: str = "those of the ssl_context"
    versions: str = "those of the ssl_context"
    has_certificate: bool = True
    validity: Validity | None = None
    certificate: str = "the one of the ssl_context"
    """Where our own certificate comes from."""

    def failure(self, error: Exception, address: str) -> TlsError:
        """The error for a connection to `address` that ended in its handshake, or by an error of OpenSSL after it."""
        # An SSLError is an OSError too, whose number is not one of the system's.
        if isinstance(error, ssl.SSLError):
            return tls_failure(error, address, self)
        return handshake_failure(address)

    @staticmethod
    def joined(parts: Sequence[Buffer]) -> list[Buffer]:
        """The same bytes, with each run of short parts joined, to be written to a connection with TLS."""
        joined: list[Buffer] = []
        short: list[Buffer] = []
        for part in parts:
            if len(part) < _JOINED_MAX:
                short.append(part)
                continue
            if short:
                joined.append(b"".join(short))
                short = []
            joined.append(part)
        if short:
            joined.append(b"".join(short))
        return joined


class TlsContexts:
    """The context for a client's connections.

    It is rebuilt when its files have changed. If that fails, for instance because only the certificate was replaced so
    far and not the key, the old context is kept, with a warning, and the files are tried again. A function given as
    ssl_context has a timeout of `timeout_s`, and only one call runs at a time. `wall` returns seconds since the epoch.
    """

    def __init__(
        self, config: SecurityConfig, *, timeout_s: float = _TIMEOUT_S, wall: Callable[[], float] = time.time
    ) -> None:
        self._config = config
        self._timeout_s = timeout_s
        self._wall = wall
        self._thread = OneThread()
        self._made: Tls | None = None
        self._made_of: Files = ()
        self._last_warning = ""
        self._warned_at = -math.inf
        self._lock = asyncio.Lock()

    async def current(self) -> Tls:
        """The context to connect with. Raises ConfigError for files or a function that can't be used."""
        given = self._config.ssl_context
        if isinstance(given, ssl.SSLContext):
            return Tls(given)
        if given is not None:
            return await self._from_user()
        async with self._lock:
            files = await self.files()
            made = self._made
            if made is None or files != self._made_of:
                try:
                    made = await self._make(files)
                except ConfigError as error:
                    if made is None:
                        raise
                    self._warn_of_failure(error)
            self._warn_of_its_end(made)
            return made

    @property
    def is_of_settings(self) -> bool:
        """Whether the context is built from the settings, and not given by the user."""
        return self._config.ssl_context is None

    async def _from_user(self) -> Tls:
        try:
            async with asyncio.timeout(self._timeout_s), self._lock:
                return await self._thread.joined(partial(_from_function, self._config))
        except TimeoutError:
            raise ConfigError(
                f"The function given as ssl_context did not return within {self._timeout_s:.1f} s."
            ) from None

    async def reload(self) -> None:
        """Rebuild the context, whether its files have changed or not. Raises ConfigError, and keeps the old one."""
        if self._config.ssl_context is None:
            async with self._lock:
                await self._make(await self.files())

    async def files(self) -> Files:
        """The state of the files of the context; empty where there are none."""
        config = self._config
        paths = [path for path in (config.ssl_truststore_location, config.ssl_keystore_location) if path is not None]
        return await asyncio.to_thread(_identities, paths) if paths else ()

    @property
    def ends(self) -> float | None:
        """When our certificate ceases to be valid, in seconds since the epoch; None if there is none, or none yet."""
        return None if self._made is None or self._made.validity is None else self._made.validity.ends

    async def _make(self, files: Files) -> Tls:
        self._made = await asyncio.to_thread(_from_settings, self._config)
        # A change since `files` was read is found by the next check.
        self._made_of = files
        self._last_warning = ""
        return self._made

    def _warn_of_failure(self, error: ConfigError) -> None:
        if self._last_warning != error.message:
            self._last_warning = error.message
            _logger.warning("The TLS files have changed and can't be used, so the old ones stay in use: %s", error)

    def _warn_of_its_end(self, tls: Tls) -> None:
        """Log a warning once a day, in the last two weeks."""
        now = self._wall()
        if tls.validity is None or tls.validity.ends - now > _WARN_BEFORE_S or now - self._warned_at < _DAY_S:
            return
        self._warned_at = now
        left_s = tls.validity.ends - now
        text = f"ends in {left_s / _DAY_S:.1f} days" if left_s > 0 else f"ended {-left_s / _DAY_S:.1f} days ago"
        hint = " New files are picked up automatically." if self._config.ssl_keystore_location is not None else ""
        _logger.warning("Our certificate (ssl.keystore) %s.%s", text, hint)


def _identities(paths: Sequence[str]) -> Files:
    return tuple(_identity(path) for path in paths)


def _identity(path: str) -> tuple[object, ...]:
    """Changes when a file is written or replaced, also by a symbolic link."""
    try:
        found = os.stat(path)
    except (OSError, ValueError) as error:
        return (path, getattr(error, "errno", None))
    return (path, found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns)


def _from_function(config: SecurityConfig) -> Tls:
    try:
        context = config.ssl_context()
    except ConfigError:
        raise
    except Exception as error:
        raise ConfigError(f"The function given as ssl_context raised {type(error).__name__}.") from error
    if not isinstance(context, ssl.SSLContext):
        raise ConfigError(f"The function given as ssl_context returned a {type(context).__name__}, no ssl.SSLContext.")
    return Tls(context)


def _from_settings(config: SecurityConfig) -> Tls:
    # Not create_default_context(): from Python 3.13 on it rejects certificates without Authority Key Identifier, which
    # Java accepts and operators such as Strimzi issue.
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = config.ssl_endpoint_identification_algorithm == "https"
    offered = [name for name in config.ssl_enabled_protocols if name <= config.ssl_protocol]
    context.minimum_version = _VERSIONS[min(offered)]
    context.maximum_version = _VERSIONS[max(offered)]
    if config.ssl_cipher_suites:
        try:
            context.set_ciphers(":".join(config.ssl_cipher_suites))
        except ssl.SSLError:
            raise ConfigError(
                "OpenSSL knows none of ssl.cipher.suites.", hint="It has its own names; those of TLS 1.3 are fixed."
            ) from None
    trusted = _trust(context, config)
    own = _identify(context, config)
    return Tls(
        context,
        trusted,
        " and ".join(sorted(offered)),
        own is not None,
        None if own is None else validity(own),
        "the one of " + (config.ssl_keystore_location or "ssl.keystore.certificate.chain"),
    )


def _trust(context: ssl.SSLContext, config: SecurityConfig) -> str:
    """Load the CAs; return their origin, for messages."""
    store = trust_store(config)
    if store is None:
        context.load_default_certs()
        count = len(context.get_ca_certs())
        return f"the {count} CAs of this system"
    try:
        context.load_verify_locations(cadata=store.pem)
    except ssl.SSLError as error:
        raise ConfigError(f"{store.where} has a certificate that can't be read: {_reason(error)}.") from None
    count = len(store.certificates)
    return f"the {count} of {store.where}" if count > 1 else f"the one of {store.where}"


def _identify(context: ssl.SSLContext, config: SecurityConfig) -> bytes | None:
    """Load our own key and certificate; return the certificate as DER, None if there is none."""
    store = key_store(config)
    if store is None:
        return None
    where = store.where
    password = config.ssl_key_password and secret_of("ssl.key.password", config.ssl_key_password)
    calls = []

    def give_password() -> str:
        # Without a password OpenSSL prompts on the terminal, and waits.
        calls.append(True)
        return password or ""

    try:
        with _as_file(store.pem) as name:
            context.load_cert_chain(name, password=give_password)
    except ssl.SSLError as error:
        if error.reason == "KEY_VALUES_MISMATCH":
            raise ConfigError(f"{where} has a private key that does not belong to its certificate.") from None
        if calls and password is None:
            raise ConfigError(f"The private key of {where} is encrypted.", hint="Set ssl.key.password.") from None
        if calls:
            raise ConfigError(f"ssl.key.password does not open the private key of {where}.") from None
        raise ConfigError(f"{where} can't be used: {_reason(error)}.") from None
    except ValueError:
        raise ConfigError("ssl.key.password is longer than the 1024 bytes that OpenSSL accepts.") from None
    return store.chain[0]


@contextmanager
def _as_file(pem: str) -> Iterator[str]:
    """A file with this content that only we can read: OpenSSL loads keys from files only."""
    if hasattr(os, "memfd_create"):
        with os.fdopen(os.memfd_create("key", os.MFD_CLOEXEC), "wb") as file:
            file.write(pem.encode())
            file.flush()
            yield f"/proc/self/fd/{file.fileno()}"
        return
    import tempfile  # For systems without memory files only.

    with tempfile.NamedTemporaryFile() as named:  # Readable for its owner only.
        named.write(pem.encode())
        named.flush()
        yield named.name


def _reason(error: ssl.SSLError) -> str:
    return (error.reason or "unreadable").replace("_", " ").lower()

"""Log-ins with Kerberos, by tickets of the system's library (extra `gssapi`)."""

from __future__ import annotations

import asyncio
import importlib
import itertools
from collections.abc import Callable
from functools import partial
from typing import Any, Final

from aioprod._short_reprs import printable
from aioprod.config._kerberos import KerberosIdentity
from aioprod.errors import AuthenticationError, ConfigError
from aioprod.net.one_thread import OneThread
from aioprod.net.protocol.login import Login
from aioprod.net.protocol.sasl.gssapi import gssapi

__all__ = ["KerberosLogins"]

_ERROR_TEXT_MAX: Final = 300
_numbers = itertools.count()
_REJECTED_HINT: Final = "Check sasl.kerberos.service.name, the clock of this machine, and the brokers' logs."


class KerberosLogins:
    """Log-ins by GSSAPI. The ticket is fetched before the log-in begins, in a thread, within `timeout_s`.

    Tickets from a keytab are kept in memory, for this client; others where the library keeps them.
    """

    def __init__(self, identity: KerberosIdentity, *, timeout_s: float) -> None:
        self._identity = identity
        self._timeout_s = timeout_s
        self._memory = _new_memory()
        self._thread = OneThread()

    async def new(self, host: str) -> Login:
        """A log-in at a broker; raises AuthenticationError without a ticket, ConfigError without the library."""
        scope = asyncio.timeout(self._timeout_s)
        try:
            async with scope:
                begin = partial(_begun, self._identity, host.rstrip("."), self._memory)
                context, first = await self._thread.run(begin)
        except TimeoutError:
            raise AuthenticationError(f"Kerberos gave no ticket within {self._timeout_s:g} s.") from None
        principal = self._identity.principal
        user = f"the Kerberos principal {principal!r}" if principal else "the Kerberos principal of this process"
        return Login("GSSAPI", gssapi(first, context), user=user, hint=_REJECTED_HINT)

    def rejected(self) -> None:
        """Does nothing: the library manages its tickets."""

    async def reload(self) -> None:
        """Fetch new tickets from the keytab at the next log-in; other tickets are renewed outside of this process."""
        self._memory = _new_memory()

    @property
    def ends(self) -> float | None:
        """None: each broker has a ticket of its own."""
        return None


def _new_memory() -> str:
    return f"MEMORY:aioprod-{next(_numbers)}"


class _Context:
    """A context of the package gssapi, which raises our errors."""

    def __init__(self, context: Any, errors: type[Exception]) -> None:
        self._context = context
        self._errors = errors

    @property
    def is_complete(self) -> bool:
        return bool(self._call(lambda: self._context.complete))

    def step(self, token: bytes) -> bytes:
        return self._call(partial(self._context.step, token or None)) or b""

    def unwrap(self, message: bytes) -> bytes:
        found: bytes = self._call(partial(self._context.unwrap, message)).message
        return found

    def wrap(self, message: bytes) -> bytes:
        found: bytes = self._call(partial(self._context.wrap, message, False)).message
        return found

    def _call(self, call: Callable[[], Any]) -> Any:
        try:
            return call()
        except self._errors as error:
            raise _explained(error) from None


def _begun(identity: KerberosIdentity, host: str, memory: str) -> tuple[_Context, bytes]:
    """A context with its first token; requests missing tickets from the KDC."""
    try:
        library = importlib.import_module("gssapi")
    except ImportError:
        raise ConfigError(
            "To log in by Kerberos aioprod needs the package gssapi.",
            hint="Install it: pip install 'aioprod[gssapi]', which needs the headers of MIT Kerberos.",
        ) from None
    errors = library.exceptions.GSSError
    try:
        broker = library.Name(f"{identity.service}@{host}", library.NameType.hostbased_service)
        made = library.SecurityContext(
            name=broker, creds=_credentials(library, identity, memory), usage="initiate", mech=library.MechType.kerberos
        )
    except errors as error:
        raise _explained(error) from None
    context = _Context(made, errors)
    return context, context.step(b"")


def _credentials(library: Any, identity: KerberosIdentity, memory: str) -> Any:
    name = None
    if identity.principal:
        name = library.Name(identity.principal, library.NameType.kerberos_principal)
    store = {}
    if identity.keytab:
        store = {"client_keytab": identity.keytab, "ccache": memory}
    elif identity.ticket_cache:
        store = {"ccache": identity.ticket_cache}
    if name is None and not store:
        return None
    return library.Credentials(name=name, usage="initiate", store=store or None)


def _explained(error: Exception) -> AuthenticationError:
    reason = printable(" ".join(str(error).split()), _ERROR_TEXT_MAX).rstrip(".")
    return AuthenticationError(f"Kerberos failed: {reason}.", hint="See klist, krb5.conf, and sasl.jaas.config.")

"""Replacing certificates and credentials while a client runs: new connections take over, broker by broker."""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Callable, Iterable
from typing import Final

from aioprod._logger import Logger
from aioprod.errors import AioprodError, ConfigError, UsageError
from aioprod.net.context import ClientContext
from aioprod.net.link import BrokerLink
from aioprod.net.tls.contexts import Files, TlsContexts

__all__ = ["LOOK_S", "STABLE_S", "Rotation"]

LOOK_S: Final = 60.0
"""How often the certificate files are checked for changes."""

STABLE_S: Final = 5.0
"""How long files must be unchanged before they are read: several files are replaced one after the other."""

_logger = Logger("aioprod.net")


class Rotation:
    """Replaces the connections by others with the current certificates and credentials.

    It does so on `reload`, and when certificate files have changed. Passwords in files, and tokens, are read by each
    new log-in in any case. `wall` returns seconds since the epoch.
    """

    def __init__(
        self, links: Iterable[BrokerLink], context: ClientContext, *, wall: Callable[[], float] = time.time
    ) -> None:
        self._links = links
        self._context = context
        self._wall = wall
        self._changing = asyncio.Lock()
        self._seen: Files | None = None
        self._look_at = -math.inf

    def poll(self, now: float) -> float:
        """Check the files if that is due; returns when something is due next."""
        tls = self._context.tls
        if tls is None or not tls.is_of_settings:
            return math.inf
        if now >= self._look_at:
            self._look_at = math.inf
            self._context.tasks.spawn(self._look(tls), name="look at TLS files")
        return self._look_at

    @property
    def expires_s(self) -> float | None:
        """Seconds until our certificate or the token expires, whichever is first; None without either."""
        tls, logins = self._context.tls, self._context.logins
        ends = [source.ends for source in (tls, logins) if source is not None]
        known = [end for end in ends if end is not None]
        return min(known) - self._wall() if known else None

    async def reload(self) -> None:
        """Re-read files and passwords, fetch a new token, and have new connections take over.

        Raises ConfigError or AuthenticationError if there are no new credentials. If brokers do not accept them, raises
        the first such error, after all brokers were tried. The old connections stay in use then. UsageError if the
        client is closed meanwhile.
        """
        errors: list[AioprodError] = []
        task = self._context.tasks.spawn(self._reload(errors), name="reload credentials")
        try:
            await asyncio.wait([task])
        finally:
            task.cancel()
        if task.cancelled():
            raise UsageError("The client was closed while it reloaded its credentials.")
        if errors:
            raise errors[0].again()

    async def _reload(self, errors: list[AioprodError]) -> None:
        async with self._changing:
            try:
                for source in (self._context.tls, self._context.logins):
                    if source is not None:
                        await source.reload()
            except Exception as error:  # of any type: the client continues with what it has
                failure = self._context.unforeseen.failure("Reading the credentials", error)
                _logger.warning("There are no new credentials, so the old ones stay in use: %s", failure)
                errors.append(failure)
                return
            for link in list(self._links):
                errors += await self._replace(link)

    async def _replace(self, link: BrokerLink) -> list[AioprodError]:
        try:
            await link.use_new_credentials()
        except Exception as error:  # of any type: it is this broker's failure, and the others follow
            failure = self._context.unforeseen.failure(f"The new connection to {link.peer}", error)
            _logger.warning(
                "%s does not accept a connection with the new credentials, so the old one stays in use: %s",
                link.peer,
                failure,
            )
            return [failure]
        return []

    async def _look(self, tls: TlsContexts) -> None:
        """Replace connections whose files have changed, once those are stable.

        Without files it only warns before the certificate expires.
        """
        next_s = LOOK_S
        async with self._changing:
            try:
                files = await tls.files()
                if files != self._seen:
                    self._seen = files
                    next_s = STABLE_S
                else:
                    await self._follow_files(tls)
            except Exception as error:  # of any type: they are looked at again
                self._context.unforeseen.failure("Looking at the files of certificates", error)
        self._look_at = self._context.clock() + next_s
        self._context.wake_at(self._look_at)

    async def _follow_files(self, tls: TlsContexts) -> None:
        try:
            current = await tls.current()
        except ConfigError:
            # These files were never valid, and each attempt to connect reports that.
            return
        for link in list(self._links):
            if link.connection is not None and link.connection.tls is not current:
                await self._replace(link)

"""Certificates of brokers and clients under a CA that is replaced, by an overlap, while all of them run."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, Final

from aioprod.cli.peer_settings import librdkafka_settings
from aioprod.testing import KafkaCluster, Security
from aioprod.testing.certificates import LOCAL_HOSTS, Authority, Identity
from integration.security.alter_broker import alter_broker

__all__ = ["ROTATED", "Rotation"]

ROTATED: Final = "certificates rotated"
_USER: Final = "alice"


class Rotation:
    """The files with what clients trust and show, and the CA that is in force."""

    def __init__(self, cluster: KafkaCluster, security: Security, folder: Path) -> None:
        self.rotations = 0
        self._cluster = cluster
        self._security = security
        self._authority = security.authority
        self._own = self._authority.issue(_USER)
        self._trusted = folder / "ca.pem"
        self._shown = folder / "own.pem"
        self._write(self._authority.certificate)

    def client_options(self) -> dict[str, Any]:
        """The settings of a client whose certificates are in the files."""
        options = self._security.client_options(_USER)
        for name in ("ssl_truststore_certificates", "ssl_keystore_key", "ssl_keystore_certificate_chain"):
            del options[name]
        return options | {
            "ssl_truststore_location": str(self._trusted),
            "ssl_keystore_location": str(self._shown),
        }

    async def rotate(self, reload: Callable[[], Awaitable[None]]) -> None:
        """Replace the CA and all certificates; `reload` has the client take up the files, and waits until it did."""
        self.rotations += 1
        before, after = self._authority, Authority(f"CA {self.rotations}")
        both = before.certificate + after.certificate
        await self._alter(before.certificate, lambda: {"truststore.certificates": both})
        old, self._own = self._own, after.issue(_USER)
        self._write(both)
        await reload()
        # Until the brokers show the new certificates, this one is still accepted, as they trust both.
        self._own, new = old, self._own

        def of_a_broker() -> dict[str, str]:
            identity = after.issue("broker", LOCAL_HOSTS)
            return {"keystore.key": identity.key, "keystore.certificate.chain": identity.chain}

        await self._alter(both, of_a_broker)
        self._own = new
        await self._alter(both, lambda: {"truststore.certificates": after.certificate})
        self._authority = after
        self._write(after.certificate)
        await reload()

    async def _alter(self, trusted: str, settings: Callable[[], dict[str, str]]) -> None:
        for broker_id in self._cluster.broker_ids:
            await asyncio.to_thread(
                alter_broker, self._cluster.bootstrap_servers, self._theirs(self._own, trusted), broker_id, settings()
            )

    def _theirs(self, own: Identity, trusted: str) -> dict[str, str]:
        """The settings of librdkafka."""
        options = self._security.client_options(_USER) | {
            "ssl_truststore_certificates": trusted,
            "ssl_keystore_key": own.key,
            "ssl_keystore_certificate_chain": own.chain,
        }
        return librdkafka_settings(options)

    def _write(self, trusted: str) -> None:
        self._trusted.write_text(trusted)
        self._shown.write_text(self._own.store)

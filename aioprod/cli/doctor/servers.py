"""The way to one server: its name, TCP, what speaks there, TLS, the log-in, and Kafka's answer."""

from __future__ import annotations

import asyncio
import time
from typing import Final

from aioprod.admin import Admin
from aioprod.cli.doctor.findings import Findings
from aioprod.cli.doctor.probe import Listener, connect, listener_at
from aioprod.config import SessionConfig, has_login, has_tls
from aioprod.errors import AioprodError, AuthenticationError, ConfigError, TlsError
from aioprod.messages import (
    FetchRequest,
    InitProducerIdRequest,
    JoinGroupRequest,
    ListOffsetsRequest,
    MetadataRequest,
    OffsetCommitRequest,
    ProduceRequest,
)
from aioprod.net.addresses import Endpoint, resolve, text_of
from aioprod.net.settings import Address
from aioprod.net.tls.certificates import validity
from aioprod.wire.schema import AnyRequest

__all__ = ["check_network", "check_server", "limited"]

_FAMILIES: Final = {2: "IPv4", 10: "IPv6", 23: "IPv6", 30: "IPv6"}
_NEEDED: Final[tuple[type[AnyRequest], ...]] = (
    ProduceRequest,
    FetchRequest,
    MetadataRequest,
    InitProducerIdRequest,
    ListOffsetsRequest,
    OffsetCommitRequest,
    JoinGroupRequest,
)
_SOON_S: Final = 14 * 86_400.0
_OTHERS: Final = {
    "http": "A web server speaks there",
    "ssh": "An SSH server speaks there",
    "other": "Something else than Kafka speaks there",
    "nothing": "What listens there says nothing, neither to a Kafka request nor to a TLS handshake",
}


def limited(config: SessionConfig, servers: list[Address], timeout_s: float) -> SessionConfig:
    """The same configuration for these servers, with calls that end after so many seconds."""
    limit_ms = max(1, round(timeout_s * 1000))
    return config.replace(
        bootstrap_servers=[text_of(address) for address in servers],
        default_api_timeout_ms=limit_ms,
        request_timeout_ms=limit_ms,
        socket_connection_setup_timeout_ms=limit_ms,
        socket_connection_setup_timeout_max_ms=limit_ms,
    )


async def check_server(findings: Findings, config: SessionConfig, address: Address, timeout_s: float) -> bool:
    """All that lies between here and a working connection; False if something of it failed."""
    subject = text_of(address)
    if not await check_network(findings, address, timeout_s):
        return False
    try:
        listener = await listener_at(address, timeout_s)
    except (OSError, TimeoutError) as error:
        findings.fail("protocol", subject, error)
        return False
    if not _check_protocol(findings, config, subject, listener):
        return False
    return await _check_connection(findings, config, address, listener, timeout_s)


async def check_network(findings: Findings, address: Address, timeout_s: float) -> bool:
    """Whether the name has an address, and one of its addresses takes connections."""
    subject = text_of(address)
    advice = "Check the spelling and the DNS server; what this machine must resolve is the brokers' advertised names."
    try:
        async with asyncio.timeout(timeout_s):
            endpoints = await resolve(asyncio.get_running_loop(), address)
    except (OSError, UnicodeError) as error:
        reason = "no answer in time" if isinstance(error, TimeoutError) else getattr(error, "strerror", None) or error
        findings.add("name", subject, "failed", f"{address[0]!r} can't be looked up: {reason}.", advice)
        return False
    named = ", ".join(f"{endpoint} ({_FAMILIES.get(endpoint.family, 'other')})" for endpoint in endpoints)
    findings.add("name", subject, "ok", f"{address[0]} is {named}.")
    reached = [await _reaches(findings, address, endpoint, len(endpoints), timeout_s) for endpoint in endpoints]
    if not any(reached):
        advice = "Check the port, whether the broker runs, and the firewalls on the way."
        findings.add("tcp", subject, "failed", "Nothing can be reached at any of its addresses.", advice)
    return any(reached)


async def _reaches(findings: Findings, address: Address, endpoint: Endpoint, of: int, timeout_s: float) -> bool:
    subject = text_of(address)
    start = time.monotonic()
    try:
        await connect(endpoint, timeout_s)
    except OSError as error:  # TimeoutError is one.
        if isinstance(error, TimeoutError):
            said = f"{endpoint} does not answer within {timeout_s:g} s: a firewall drops packets, or the host is down"
        elif isinstance(error, ConnectionRefusedError):
            said = f"{endpoint} rejects connections: nothing listens on port {address[1]}"
        else:
            said = f"{endpoint} can't be reached: {error.strerror or error}"
        if of > 1:
            findings.add("tcp", subject, "warning", f"{said}.", "Clients lose time with this address.")
        else:
            findings.add("tcp", subject, "warning", f"{said}.")
        return False
    findings.add("tcp", subject, "ok", f"{endpoint} accepts connections, in {_ms(start)}.")
    return True


def _check_protocol(findings: Findings, config: SessionConfig, subject: str, listener: Listener) -> bool:
    wanted = config.security_protocol
    if listener.kind in _OTHERS:
        said = f"{_OTHERS[listener.kind]}{f', it says {listener.said}' if listener.said else ''}."
        findings.add(
            "protocol", subject, "failed", said, "Give the address of a Kafka listener: often port 9092 or 9093."
        )
        return False
    if listener.kind == "tls" and not has_tls(config):
        advice = f"Set security.protocol={'SASL_SSL' if has_login(config) else 'SSL, or SASL_SSL with a log-in'}."
        findings.add("protocol", subject, "failed", f"It speaks TLS, and security.protocol={wanted} does not.", advice)
        return False
    if listener.kind == "kafka" and has_tls(config):
        advice = (
            f"Set security.protocol={'SASL_PLAINTEXT' if has_login(config) else 'PLAINTEXT'}, or take the TLS port."
        )
        findings.add("protocol", subject, "failed", f"It has no TLS, and security.protocol={wanted} wants it.", advice)
        return False
    findings.add(
        "protocol", subject, "ok", "It speaks TLS." if listener.kind == "tls" else "It speaks Kafka, without TLS."
    )
    return True


async def _check_connection(
    findings: Findings, config: SessionConfig, address: Address, listener: Listener, timeout_s: float
) -> bool:
    subject = text_of(address)
    start = time.monotonic()
    try:
        async with asyncio.timeout(2 * timeout_s), Admin(config=limited(config, [address], timeout_s)) as admin:
            took = _ms(start)
            if has_tls(config):
                _note_certificate(findings, subject, listener)
            if has_login(config):
                findings.add("log-in", subject, "ok", f"{config.sasl_mechanism or 'The log-in'} is accepted.")
            findings.add("kafka", subject, "ok", f"It answers in {took}.")
            _check_versions(findings, subject, admin)
            return True
    except (AioprodError, TimeoutError, OSError) as error:
        if isinstance(error, TlsError):
            findings.fail("tls", subject, error)
            return False
        if has_tls(config):
            _note_certificate(findings, subject, listener)
        is_login = isinstance(error, AuthenticationError | ConfigError)
        findings.fail("log-in" if is_login else "kafka", subject, error)
        return False


def _check_versions(findings: Findings, subject: str, admin: Admin) -> None:
    """Whether the broker knows all requests of producers, members and readers."""
    versions = admin.api_versions
    missing = [kind.NAME for kind in _NEEDED if versions is None or not versions.supports(kind)]
    if missing:
        found = f"It does not know {', '.join(missing)}."
        findings.add(
            "versions", subject, "warning", found, "It is older than Kafka 0.11, or no Kafka: some calls fail."
        )
    elif versions is not None:
        newest = ", ".join(f"{kind.NAME} {versions.pick(kind)}" for kind in _NEEDED[:3])
        findings.add("versions", subject, "ok", f"It knows all that this client needs, such as {newest}.")


def _note_certificate(findings: Findings, subject: str, listener: Listener) -> None:
    """The handshake succeeded: say how long its certificate lasts."""
    span = None if listener.certificate is None else validity(listener.certificate)
    if span is None:
        findings.add("tls", subject, "ok", "The handshake succeeds.")
        return
    until = time.strftime("%Y-%m-%d", time.gmtime(span.ends))
    if span.ends - time.time() < _SOON_S:
        days = (span.ends - time.time()) / 86_400
        found = f"The handshake succeeds; the certificate ends in {days:.1f} days."
        findings.add("tls", subject, "warning", found, "Have it renewed.")
    else:
        findings.add("tls", subject, "ok", f"The handshake succeeds; the certificate is valid until {until}.")


def _ms(start: float) -> str:
    return f"{(time.monotonic() - start) * 1000:.1f} ms"

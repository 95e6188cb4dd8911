"""What this client may do with a topic: describe, write, read back; and what a record says of the clock."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import aclosing
from typing import Any, Final

from aioprod.admin import Admin
from aioprod.cli.doctor.findings import Findings
from aioprod.cli.doctor.servers import limited
from aioprod.cluster import PartitionInfo
from aioprod.config import ProducerConfig, SessionConfig
from aioprod.errors import AioprodError, DeliveryError, ErrorCode
from aioprod.net.settings import Address
from aioprod.producer import Producer
from aioprod.reader import Reader, ReaderConfig
from aioprod.types import RecordMetadata

__all__ = ["check_topic", "check_transactions"]

_VALUE: Final = b"a record of aioprod doctor"
_SKEW_MAX_S: Final = 5.0
_SYNCHRONIZE: Final = "Synchronize this machine's clock (NTP), or the brokers'."


async def check_topic(
    findings: Findings,
    config: SessionConfig,
    producer: Callable[[dict[str, Any]], ProducerConfig],
    servers: list[Address],
    topic: str,
    timeout_s: float,
    clock: Callable[[], float],
) -> None:
    """Describe the topic, write a record in each way, and read one back; `clock` is the wall clock, in seconds."""
    append_time = False
    async with Admin(config=limited(config, servers, timeout_s)) as admin:
        try:
            partitions = await admin.partitions(topic)
            findings.add("describe", topic, "ok", f"It has {len(partitions)} partitions.")
        except AioprodError as error:
            findings.fail("describe", topic, error)
            for check in ("write", "idempotent", "round trip", "clock"):
                findings.add(check, topic, "skipped", "The topic can't be described.")
            return
        try:
            settings = await admin.describe_configs("topic", topic)
            append_time = settings["message.timestamp.type"].value == "LogAppendTime"
            _check_in_sync(findings, topic, partitions, int(settings["min.insync.replicas"].value or 1))
        except (AioprodError, KeyError):
            pass  # The clock can be compared in another way, and a write shows what is missing.
    plain = await _write(findings, producer({"enable.idempotence": False}), "write", topic, clock)
    if plain is None:
        findings.add("idempotent", topic, "skipped", "Records can't be written at all.")
        findings.add("round trip", topic, "skipped", "Records can't be written.")
        return
    await _write(findings, producer({"enable.idempotence": True}), "idempotent", topic, clock)
    await _read_back(findings, config, servers, plain, timeout_s)
    _compare_clocks(findings, topic, plain, clock, append_time=append_time)


def _check_in_sync(findings: Findings, topic: str, partitions: Sequence[PartitionInfo], least: int) -> None:
    """Whether each partition has as many replicas in sync as `min.insync.replicas` requires."""
    starved = [info for info in partitions if len(info.in_sync_replicas) < least]
    if not starved:
        return
    first = starved[0]
    missing = sorted({node.id for node in first.replicas} - {node.id for node in first.in_sync_replicas})
    down = sorted(node.id for node in first.replicas if not node.host or node in first.offline_replicas)
    found = (
        f"{topic}-{first.partition} has {len(first.in_sync_replicas)} of {len(first.replicas)} replicas in sync, and "
        f"min.insync.replicas={least} requires {least}: brokers reject records with acks=all. So it is with "
        f"{len(starved)} of {len(partitions)} partitions."
    )
    if down:
        advice = f"Start broker {', '.join(map(str, down))}, which is down."
    elif missing:
        advice = f"Look at the log of broker {', '.join(map(str, missing))}, whose replica is not in sync."
    else:
        advice = "Give the topic more replicas, or a lower min.insync.replicas."
    findings.add("in sync", topic, "failed", found, advice)


async def _write(
    findings: Findings, config: ProducerConfig, check: str, topic: str, clock: Callable[[], float]
) -> RecordMetadata | None:
    start = time.monotonic()
    try:
        async with Producer(config=config) as producer:
            connected = time.monotonic()
            metadata = await producer.send(topic, _VALUE, timestamp=round(clock() * 1000))
    except AioprodError as error:
        if isinstance(error, DeliveryError) and error.code == ErrorCode.INVALID_TIMESTAMP:
            at = time.strftime("%Y-%m-%d %H:%M:%S", time.gmtime(clock()))
            found = f"The brokers reject the time of this machine, {at} UTC, as too far from theirs."
            findings.add("clock", topic, "failed", found, _SYNCHRONIZE)
        findings.fail(check, topic, error)
        return None
    took = f"{(time.monotonic() - connected) * 1000:.1f} ms, after {(connected - start) * 1000:.0f} ms to connect"
    kind = "An idempotent record" if check == "idempotent" else "A record"
    findings.add(
        check, topic, "ok", f"{kind} is stored in partition {metadata.partition} at {metadata.offset} in {took}."
    )
    return metadata


async def _read_back(
    findings: Findings, config: SessionConfig, servers: list[Address], sent: RecordMetadata, timeout_s: float
) -> None:
    start = time.monotonic()
    settings = limited(config, servers, timeout_s)
    read_config = ReaderConfig.shared_with(settings)
    try:
        async with Reader(config=read_config) as reader:
            bounds = {sent.partition: sent.offset}, {sent.partition: sent.offset + 1}
            records = reader.read(sent.topic, start=bounds[0], end=bounds[1], partitions=[sent.partition])
            async with aclosing(records) as found:
                values = [record.value async for record in found]
    except AioprodError as error:
        findings.fail("round trip", sent.topic, error)
        return
    took = f"{(time.monotonic() - start) * 1000:.0f} ms, connecting included"
    if values == [_VALUE]:
        findings.add("round trip", sent.topic, "ok", f"The record comes back in {took}.")
    else:
        findings.add("round trip", sent.topic, "failed", "Another record than the one that was stored comes back.")


def _compare_clocks(
    findings: Findings, topic: str, stored: RecordMetadata, clock: Callable[[], float], *, append_time: bool
) -> None:
    if not append_time:
        found = (
            "The brokers accept this machine's time; how far theirs is from it only a topic with LogAppendTime shows."
        )
        findings.add("clock", topic, "ok", found)
        return
    skew_s = clock() - stored.timestamp / 1000
    if abs(skew_s) <= _SKEW_MAX_S:
        findings.add("clock", topic, "ok", f"This machine's clock and the broker's are within {_SKEW_MAX_S:g} s.")
        return
    ahead = "ahead of" if skew_s > 0 else "behind"
    found = f"This machine's clock is {abs(skew_s):,.0f} s {ahead} the broker's."
    findings.add("clock", topic, "failed", found, _SYNCHRONIZE)


async def check_transactions(findings: Findings, config: ProducerConfig) -> None:
    """Begin a transaction, and abort it: nothing is written."""
    name = config.transactional_id or ""
    try:
        async with Producer(config=config) as producer:
            await producer.begin_transaction()
            await producer.abort_transaction()
    except AioprodError as error:
        findings.fail("transactions", name, error)
        return
    findings.add("transactions", name, "ok", "A transaction can be begun and aborted.")

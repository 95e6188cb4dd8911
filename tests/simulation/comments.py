"""Comments in a trace that is shown: what brokers receive and answer."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any
from unittest import mock

from aioprod.errors import CorruptRecordError, ErrorCode
from aioprod.messages import AddPartitionsToTxnRequest, EndTxnRequest, InitProducerIdRequest, ProduceRequest
from aioprod.records.parser import parse_batches
from aioprod.testing.fake.handlers.table import HANDLERS
from aioprod.testing.simulation.trace import Trace
from tests.simulation.ledger import number_in

__all__ = ["commenting"]

COMMENTED: tuple[type[Any], ...] = (InitProducerIdRequest, AddPartitionsToTxnRequest, EndTxnRequest)
"""Requests that are shown with all their fields."""


@contextlib.contextmanager
def commenting(trace: Trace) -> Iterator[None]:
    """Comment on requests inside the block, if the trace is shown."""
    if trace.show is None:
        yield
        return
    produce = HANDLERS[ProduceRequest]

    def handle(call: Any, request: ProduceRequest) -> Any:
        answer: Any = produce(call, request)
        for sent, answered in zip(request.topic_data, answer.responses, strict=True):
            for data, row in zip(sent.partition_data, answered.partition_responses, strict=True):
                where = f"{sent.name or str(sent.topic_id)[:8]}-{data.index}"
                code, offset = ErrorCode.of(row.error_code), row.base_offset
                trace.comment(f"node {call.node_id}: {where} {_described(data.records)} -> {code!r} {offset}")
        return answer

    others = {kind: _comment_on(trace, kind.NAME, HANDLERS[kind]) for kind in COMMENTED}
    with mock.patch.dict(HANDLERS, {ProduceRequest: handle, **others}):
        yield


def _comment_on(trace: Trace, name: str, answer: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    def handle(call: Any, request: Any) -> Any:
        response = answer(call, request)
        trace.comment(f"node {call.node_id}: {name} v{call.version} {request} -> {response}")
        return response

    return handle


def _described(records: Any) -> str:
    try:
        (batch,) = parse_batches(bytes(records or b""))
        numbers = [number_in(record.value) for record in batch.records()]
    except (CorruptRecordError, ValueError) as error:
        return repr(error)
    return f"id {batch.producer_id} epoch {batch.producer_epoch} sequence {batch.base_sequence} {numbers}"

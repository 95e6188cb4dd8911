"""The chain of interceptors: order, replacement, and failures that never reach a send."""

from __future__ import annotations

import logging
from types import SimpleNamespace
from typing import Any

import pytest

from aioprod.config import ProducerConfig
from aioprod.errors import AioprodError, ConfigError, InvalidRecordError
from aioprod.interceptors import Interceptors, ProducerInterceptor
from aioprod.types import ProducerRecord, RecordMetadata

RECORD = ProducerRecord("orders", b"v")
METADATA = RecordMetadata("orders", 1, 7, 1234)


class Recording(ProducerInterceptor):
    def __init__(self, name: str = "") -> None:
        self.name = name
        self.seen: list[object] = []

    def configure(self, config: ProducerConfig) -> None:
        self.seen.append(config)

    def on_send(self, record: ProducerRecord) -> ProducerRecord:
        self.seen.append(record)
        return ProducerRecord(record.topic, record.value + self.name.encode())

    def on_acknowledgement(self, metadata: RecordMetadata, error: AioprodError | None) -> None:
        self.seen.append((metadata, error))

    def close(self) -> None:
        self.seen.append("closed")


class Failing:
    def __init__(self) -> None:
        self.calls = 0

    def on_send(self, record: ProducerRecord) -> ProducerRecord:
        self.calls += 1
        raise ValueError("no")

    def on_acknowledgement(self, metadata: RecordMetadata, error: AioprodError | None) -> None:
        self.calls += 1
        raise ValueError("no")

    def close(self) -> None:
        raise ValueError("no")


def test_no_interceptors_are_false() -> None:
    assert not Interceptors()
    assert Interceptors([ProducerInterceptor()])


def test_each_gets_what_the_one_before_returned() -> None:
    first, second = Recording("a"), Recording("b")
    chain = Interceptors([first, ProducerInterceptor(), second])
    assert chain.on_send(RECORD) == ProducerRecord("orders", b"vab")
    assert first.seen == [RECORD]
    assert second.seen == [ProducerRecord("orders", b"va")]
    assert chain.failures == 0


def test_acknowledgements_go_to_all() -> None:
    first, second = Recording(), Recording()
    chain = Interceptors([first, ProducerInterceptor(), second])
    error = InvalidRecordError("no")
    chain.on_acknowledgement(METADATA, None)
    chain.on_acknowledgement(METADATA, error)
    assert first.seen == second.seen == [(METADATA, None), (METADATA, error)]


@pytest.mark.parametrize(("partition", "shown"), [(None, -1), (3, 3)])
def test_a_record_that_was_not_accepted(partition: int | None, shown: int) -> None:
    member = Recording()
    error = InvalidRecordError("no")
    Interceptors([member]).on_send_error(RECORD, partition, error)
    assert member.seen == [(RecordMetadata("orders", shown, -1, -1), error)]


def test_a_failing_one_is_passed_over_logged_and_counted(caplog: pytest.LogCaptureFixture) -> None:
    failing, last = Failing(), Recording("b")
    chain = Interceptors([Recording("a"), failing, last])
    assert chain.on_send(RECORD) == ProducerRecord("orders", b"vab")
    chain.on_acknowledgement(METADATA, None)
    assert last.seen[-1] == (METADATA, None)
    assert (failing.calls, chain.failures) == (2, 2)
    assert "Failing.on_send failed" in caplog.text
    assert "ValueError: no" in caplog.text


def test_a_hook_that_always_fails_does_not_fill_the_log(caplog: pytest.LogCaptureFixture) -> None:
    chain = Interceptors([Failing()])
    for _ in range(1000):
        assert chain.on_send(RECORD) is RECORD
    assert chain.failures == 1000
    assert len(caplog.records) == 10
    assert "(1 failure of interceptors so far)" in caplog.text
    assert "(2 failures of interceptors so far)" in caplog.text


@pytest.mark.parametrize("returned", [None, "record", 5])
def test_what_is_no_record_is_passed_over(returned: object, caplog: pytest.LogCaptureFixture) -> None:
    class Wrong:
        def on_send(self, record: ProducerRecord) -> object:
            return returned

    chain = Interceptors([Wrong()])
    assert chain.on_send(RECORD) is RECORD
    assert chain.failures == 1
    assert "on_send must return a ProducerRecord" in caplog.text


def test_coroutine_functions_are_refused() -> None:
    class Asynchronous:
        async def on_acknowledgement(self, metadata: RecordMetadata, error: AioprodError | None) -> None:
            raise AssertionError

    with pytest.raises(
        ConfigError, match=r"Asynchronous\.on_acknowledgement of an interceptor is a coroutine function"
    ):
        Interceptors([Asynchronous()])


def test_close_reaches_all(caplog: pytest.LogCaptureFixture) -> None:
    member = Recording()
    Interceptors([Failing(), object(), member]).close()
    assert member.seen == ["closed"]
    assert [record.levelno for record in caplog.records] == [logging.WARNING]


def test_from_the_configuration() -> None:
    given = Recording()
    config = ProducerConfig.from_options(
        bootstrap_servers="localhost:9092", interceptor_classes=[given, "aioprod.interceptors:ProducerInterceptor"]
    )
    chain = Interceptors.from_config(config)
    assert chain
    assert given.seen == [config]
    assert chain.on_send(RECORD) == RECORD


@pytest.mark.parametrize("interrupt", [KeyboardInterrupt, SystemExit])
def test_an_interrupt_in_a_thread_without_a_loop_reaches_its_caller(interrupt: type[BaseException]) -> None:
    def on_send(record: ProducerRecord) -> ProducerRecord:
        raise interrupt

    chain = Interceptors([SimpleNamespace(on_send=on_send)])
    with pytest.raises(interrupt):
        chain.on_send(RECORD)
    assert chain.failures == 1


@pytest.mark.parametrize("given", [object(), "no_such_module:Class"])
def test_what_is_no_interceptor(given: Any) -> None:
    config = ProducerConfig.from_options(bootstrap_servers="localhost:9092", interceptor_classes=[given])
    with pytest.raises(ConfigError):
        Interceptors.from_config(config)

"""`python -m benchmarks.distance`: its cells, the sink and what waits there, our client, failures, and the tables."""

from __future__ import annotations

import asyncio

import pytest

from aioprod import Producer
from aioprod.messages import ApiVersionsRequest, MetadataRequest, MetadataResponse, ProduceRequest
from aioprod.messages.negotiation import decode_api_versions
from aioprod.routing.hashes import murmur2_partition
from aioprod.types import TopicPartition
from aioprod.wire.codec import decode
from aioprod.wire.frame import FrameSplitter, decode_response_header, encode_request
from benchmarks.distance.__main__ import Options, contenders_of, measure
from benchmarks.distance.brokers import BROKERS
from benchmarks.distance.cells import BY_HAND, CONTENDERS, PARTITIONS, VALUE_SIZES, Cell, Contender, cells
from benchmarks.distance.clients import CLIENTS
from benchmarks.distance.job import BUFFER_MEMORY, Job, Measurement
from benchmarks.distance.sink import Sink
from benchmarks.distance.tables import Found, best_of, of_all, of_cell


def job(cell: Cell, servers: str = "", rate: int = 0) -> Job:
    return Job(
        client="aioprod",
        settings={"linger_ms": 0},
        bootstrap_servers=servers,
        topic=cell.topic,
        keys=cell.keys,
        value_size=cell.value_size,
        warm_up_s=0.05,
        seconds=0.3,
        rate=rate,
    )


def test_each_contender_has_a_program() -> None:
    assert {contender.client for contender in CONTENDERS} == {*CLIENTS, "java"}


def test_each_partition_has_its_key() -> None:
    keys = Cell(5, 12, 100).keys
    assert [murmur2_partition(key.encode(), 12) for key in keys] == list(range(12))
    assert Cell(5, 1, 100).keys == ()


def test_short_round_trips_are_those_of_the_loop() -> None:
    assert [Cell(ms, 1, 100).delay_s for ms in (0.2, 5, 500)] == [0, 0.005, 0.5]
    assert [Cell(ms, 1, 100).warm_up_s for ms in (0.2, 500, 2000)] == [1, 1, 4]


@pytest.mark.parametrize("cell", cells([5], PARTITIONS, VALUE_SIZES), ids=lambda cell: cell.title)
def test_calls_fill_the_buffer_and_have_the_same_for_each_partition(cell: Cell) -> None:
    given = job(cell)
    assert given.records_a_call % cell.partitions == 0
    assert 0.8 < given.records_a_call * given.calls_at_once * (cell.value_size + 10) / BUFFER_MEMORY < 1


def test_job_and_measurement_are_lines() -> None:
    given = job(Cell(5, 12, 100))
    assert Job.from_json(given.to_json()) == given
    found = Measurement(records_per_s=10.5, cpu_us=1.5, peak_mb=40.0, p50_ms=5.0)
    assert Measurement.from_json(found.to_json()) == found


async def test_the_sink_gives_offsets() -> None:
    async with Sink("records", 12) as sink, Producer(sink.bootstrap_servers, batch_size=1000) as producer:
        for first in (0, 50):
            sent = await producer.send_many("records", [b"x" * 100] * 50, partition=7)
            assert sent.offsets == {TopicPartition("records", 7): (range(first, first + 50),)}


async def test_answers_wait_while_requests_are_read() -> None:
    request = encode_request(MetadataRequest(topics=None), 13, 7, "test")
    async with Sink("records", 12, delay_s=0.05) as sink:
        host, port = sink.bootstrap_servers.split(",")[0].split(":")
        reader, writer = await asyncio.open_connection(host, int(port))
        begun = asyncio.get_running_loop().time()
        writer.write(request * 3)
        frames = FrameSplitter()
        answers: list[memoryview] = []
        taken = []
        while len(answers) < 3:
            answers += frames.feed(await reader.read(1 << 16))
            taken.append(sink.requests)
        writer.close()
    assert taken[0] == 3
    assert asyncio.get_running_loop().time() - begun > 0.04
    number, body = decode_response_header(MetadataResponse, 13, answers[0])
    assert number == 7
    assert [one.leader_id for one in decode(MetadataResponse, 13, body).topics[0].partitions[:4]] == [1, 2, 3, 1]


def test_a_newer_request_for_versions_is_answered_in_the_oldest_form() -> None:
    sink = Sink("records", 12)
    frame = bytearray(encode_request(ApiVersionsRequest(), 4, 9, "test")[4:])
    frame[2:4] = (99).to_bytes(2)
    answer = memoryview(sink.answer(memoryview(frame)))
    assert int.from_bytes(answer[4:8]) == 9
    found = decode_api_versions(0, answer[8:])
    assert found.error_code == 35
    assert ProduceRequest.API_KEY in {one.api_key for one in found.api_keys}


@pytest.mark.parametrize("rate", [0, 1000])
@pytest.mark.parametrize("partitions", [1, 12])
async def test_our_client_is_measured(rate: int, partitions: int) -> None:
    cell = Cell(0.2, partitions, 10_000)
    async with Sink(cell.topic, partitions) as sink:
        while not (found := await CLIENTS["aioprod"](job(cell, sink.bootstrap_servers, rate))).records_per_s:
            pass  # The machine was busy with something else.
    assert min(found.cpu_us, found.peak_mb) > 0
    assert (found.p50_ms is None) == (rate == 0)


async def test_a_contender_that_fails_is_named_and_others_go_on() -> None:
    cell = Cell(0.2, 12, 100)
    bad = Contender("bad", "aioprod, bad", "aioprod", {"batch_size": -1})
    async with BROKERS["sink"]() as places, places(cell) as servers:
        failed, good = await measure(servers, cell, [bad, CONTENDERS[-1]], Options(0.2, 2, 0))
    assert (failed.runs, len(good.runs)) == ([], 2)
    assert "batch.size" in failed.failure
    table = of_cell(cell, [failed, good], is_timed=False)
    assert [row[-1] for row in table.rows] == [f"failed: {failed.failure}", "be doubled, change places"]


def test_contenders_are_chosen_by_words() -> None:
    assert [one.name for one in contenders_of(["java", "idem"], [])] == ["java", "idempotent"]
    assert len(contenders_of([], [])) == len(CONTENDERS) + len(BY_HAND)
    (mine,) = contenders_of(["hand"], [{"batch_size": 7}])
    assert mine.settings == {"batch_size": 7}


def found_of(contender: Contender, *rates: float, p50_ms: float | None = None) -> Found:
    return Found(contender, [Measurement(records_per_s=one, cpu_us=1, peak_mb=40, p50_ms=p50_ms) for one in rates])


def test_the_best_settings_stand_in_the_tables() -> None:
    first, second = contenders_of(["hand"], [{"batch_size": 1}, {"batch_size": 2, "linger_ms": 3}])
    ours = found_of(CONTENDERS[0], 50, 10, 30)
    found = best_of([ours, found_of(first, 40), found_of(second, 60)])
    table = of_cell(Cell(250, 1000, 10_000), found, is_timed=False)
    assert table.heading == "250 ms, 1,000 partitions, 10,000 B"
    assert [row[:3] for row in table.rows] == [("aioprod", 30, 0.3), ("aioprod, best by hand", 60, 0.6)]
    assert table.rows[1][-2] == "batch_size=2, linger_ms=3"
    everything = of_all("All", {Cell(5, 1, 100): found}, is_timed=False)
    assert everything.rows == [("5 ms, 1 partition, 100 B", 30, 60)]


def test_the_best_of_times_is_the_shortest() -> None:
    first, second = contenders_of(["hand"], [{}, {}])
    slow, fast = found_of(first, 999, p50_ms=6.0), found_of(second, 998, p50_ms=5.0)
    (best,) = best_of([slow, fast])
    assert best is fast
    assert of_cell(Cell(5, 1, 100), [best], is_timed=True).headers[3:5] == ("p50 ms", "p99 ms")
    assert of_all("All", {Cell(5, 1, 100): [best]}, is_timed=True).rows == [("5 ms, 1 partition, 100 B", 5.0)]

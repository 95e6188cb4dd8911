"""The simulations of `docs/scale.md` at tiny sizes, the models beside them, and the page."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from aioprod import Producer
from tests.scale.crowd import computed, simulated
from tests.scale.page import PAGE, RESULTS, with_tables
from tests.scale.pictures import FOLDER, write
from tests.scale.restarts import modelled, outage
from tests.scale.rolling import rolling_restart
from tests.scale.split import cut
from tests.scale.stub import Stub, address_of, topic_name


@pytest.fixture(scope="module")
def results() -> Any:
    return json.loads(RESULTS.read_text())


def test_the_page_has_the_figures_of_the_results(results: Any) -> None:
    assert with_tables(PAGE.read_text(), results) == PAGE.read_text()


def test_a_page_without_a_place_for_a_table_is_an_error(results: Any) -> None:
    with pytest.raises(ValueError, match="no place for the table 'single'"):
        with_tables("# At scale\n", results)


def test_the_page_shows_every_picture_and_all_are_small(results: Any, tmp_path: Path) -> None:
    write(results, tmp_path)
    for picture in tmp_path.iterdir():
        assert f"images/{picture.name}" in PAGE.read_text()
        assert (FOLDER / picture.name).stat().st_size < 80_000
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(
        path.name for path in FOLDER.iterdir() if path.name.startswith("scale-")
    )


def test_the_results_keep_the_promises_of_the_page(results: Any) -> None:
    assert results["outage"]["fleet"]["steady_peak"] <= 2
    assert results["rolling"]["lost"] == results["rolling"]["duplicated"] == results["rolling"]["errors"] == 0
    assert all(row["lost"] == row["duplicated"] == 0 for row in results["cut"])


# --- the simulations


def test_the_model_of_a_crowd_is_that_of_real_producers() -> None:
    real, model = simulated(8, 2), computed(8, 2)
    assert real.connections_of_a_broker == model.connections_of_a_broker
    assert real.connection_attempts == model.connection_attempts
    assert real.metadata_per_s == pytest.approx(model.metadata_per_s, rel=0.1)


def test_producers_that_started_together_don_t_refresh_together() -> None:
    assert simulated(20, 2).metadata_peak <= 10


def test_the_model_of_an_outage_is_that_of_real_producers() -> None:
    real, model = outage(8, 2, 20.0), modelled(8, 20.0)
    assert sum(real.attempts) == pytest.approx(sum(model.attempts), rel=0.05)
    assert real.attempts[0] == pytest.approx(model.attempts[0], rel=0.1)
    assert not any(real.attempts[22:]), "all are connected a second after the end of the outage"


def test_first_connections_are_not_delayed() -> None:
    real = outage(8, 2, 5.0)
    assert real.first_s <= 0.1
    assert real.ready_s <= 0.1


def test_thousands_that_lost_a_broker_together_do_not_come_back_together() -> None:
    fleet = modelled(2000, 40.0)
    assert fleet.steady_peak <= 2
    assert fleet.peak == pytest.approx(3.5, abs=0.3)


def test_a_rolling_restart_loses_and_doubles_nothing() -> None:
    rolled = rolling_restart(2, 3)
    assert rolled.records > 1000
    assert (rolled.lost, rolled.duplicated, rolled.errors) == (0, 0, 0)


@pytest.mark.parametrize("moves", [True, False])
def test_a_cut_network_loses_nothing_that_was_acknowledged(moves: bool) -> None:
    one = cut(2, 4, 200.0, moves=moves)
    assert one.records == one.delivered + one.expired + one.refused
    assert (one.lost, one.duplicated) == (0, 0)
    assert (one.expired == 0) == moves
    assert sum(one.delivered_by_time) == one.delivered
    assert sum(one.failed_by_time) == one.expired + one.refused


# --- the stub


async def test_a_producer_takes_the_stub_for_a_cluster() -> None:
    stub = Stub(brokers=3, topics=2, partitions=6)
    await stub.start()
    try:
        async with Producer(f"{address_of(0)}:{stub.port}") as producer:
            async with asyncio.timeout(30):
                sent = [producer.submit(topic_name(1), b"v", partition=index) for index in range(6)]
                assert {(await future).partition for future in sent} == set(range(6))
                assert len(await producer.partitions_for(topic_name(0))) == 6
    finally:
        stub.close()
    assert stub.connections == 3
    assert stub.requests["Produce"] >= 3
    assert stub.sent["Metadata"] > 0

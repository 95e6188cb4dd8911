"""What is imported by whom: a program pays for each module at each start, a Spark worker too."""

from __future__ import annotations

import importlib
import os
import subprocess
import sys
from pathlib import Path

import pytest

import aioprod

ROOT = Path(aioprod.__file__).parents[1]

PRODUCER = {
    "": "_acl_names _authorization_errors _base_error _build _error_codes _lazy _log_rate_limit _logger _loops "
    "_process_bound _short_reprs _user_code _words cluster config consumed_record errors interceptors messages metrics "
    "net producer record_metadata records routing serializers types wire",
    "cluster": "lower_epochs metadata model names topic_errors topic_metadata",
    "config": "_addresses _base _classes _client _files _oidc _producer _properties _security _session _setting "
    "_unsupported",
    "messages": "api_versions init_producer_id metadata negotiation produce",
    "metrics": "families instruments native producer registry topics",
    "net": "addresses buffered client connection context dialing events happy_eyeballs link login metadata_refresh "
    "pending_response pool protocol scheduler security settings slow_calls tasks traffic unforeseen waiters",
    "net.login": "reauthentication",
    "net.protocol": "backoff connection",
    "producer": "backpressure batching bulk call_order callbacks clock closing completion completions compressor "
    "deleted_topics delivery_future engine environment explain failure failure_reports foreign_calls guard health logs "
    "lost_brokers mass_failure meters native outcomes pipeline preparation producer producer_calls producer_id "
    "reporting resolver sender settings transactions unclosed unknown_topics",
    "producer.batching": "accumulator accumulator_settings batch batch_events buffer_memory bulk_values drain growth "
    "lifecycle lines parking partition partition_choice produce retry sequences size_limit splitting states stuck "
    "stuck_share topic_updates unknown",
    "producer.bulk": "appender call send_many",
    "producer.logs": "callback_faults event_log milestones stall_monitor unread_failures",
    "producer.transactions": "calls rules states",
    "records": "bounds builder compression cursor fields headers layout",
    "routing": "hashes partitioners sticky",
    "serializers": "_adapter",
    "wire": "buffer codec crc decoder frame memory schema",
}
"""The modules that naming `aioprod.Producer` loads, by room."""

SYNC = "call entry executor inbox loop_producer processes producer real_threads record_future session unsent"
"""The modules that `aioprod.sync` loads beside these."""

MESSAGES = """
ApiVersion ApiVersionsRequest ApiVersionsResponse FinalizedFeatureKey SupportedFeatureKey
InitProducerIdRequest InitProducerIdResponse
MetadataRequest MetadataRequestTopic MetadataResponse MetadataResponseBroker MetadataResponsePartition
MetadataResponseTopic
BatchIndexAndErrorMessage LeaderIdAndEpoch NodeEndpoint PartitionProduceData PartitionProduceResponse ProduceRequest
ProduceResponse TopicProduceData TopicProduceResponse
"""
"""The message classes that it declares."""

DATASOURCE = {
    "": "_acl_names _base_error _build _error_codes _lazy _logger _user_code config errors spark",
    "config": "_addresses _base _classes _client _files _oidc _producer _properties _security _session _setting "
    "_unsupported",
    "spark": "datasource options",
}
"""The modules that Spark's driver, planners and workers load before they know what they are to do."""

DEAR = {"argparse", "crc32c", "ctypes", "email", "importlib.metadata", "ipaddress", "json", "pathlib", "zipfile"}
"""Modules of others that take milliseconds."""

LAZY = ["", ".messages", ".producer", ".reader", ".records", ".routing", ".serializers", ".spark", ".testing"]
"""The packages that import names when they are used."""


def loaded(imports: str, *, interpreted: bool = False) -> set[str]:
    """The modules that a fresh interpreter loads for `imports`, and as `kind: name` the message classes."""
    code = f"""
import sys
before = set(sys.modules)
import {imports}
found = set(sys.modules) - before
schema = sys.modules.get("aioprod.wire.schema")
declared = schema.Struct.__subclasses__() if schema else []
for kind in declared:
    declared += kind.__subclasses__()
found |= {{f"message: {{kind.__name__}}" for kind in declared if kind.__module__ != schema.__name__}}
print(*sorted(found), sep="\\n")
"""
    environment = os.environ | {"PYTHONPATH": str(ROOT), "AIOPROD_NO_EXT": "1" if interpreted else ""}
    run = subprocess.run(
        [sys.executable, "-c", code], env=environment, cwd="/", capture_output=True, text=True, check=False
    )
    assert run.returncode == 0, run.stderr
    return set(run.stdout.splitlines())


def modules(rooms: dict[str, str]) -> set[str]:
    """The names of modules that are listed by room."""
    return {f"aioprod.{room}.{name}".replace("..", ".") for room, names in rooms.items() for name in names.split()}


def ours(found: set[str]) -> set[str]:
    """The modules of aioprod, but for itself."""
    return {name for name in found if name.startswith("aioprod.")}


@pytest.mark.parametrize("interpreted", [True, False])
def test_what_naming_the_producer_loads(interpreted: bool) -> None:
    found = loaded("aioprod; aioprod.Producer", interpreted=interpreted)
    # Compiled modules share a module of Cython's.
    assert ours(found) - {"aioprod._cython"} == modules(PRODUCER)
    assert {name.removeprefix("message: ") for name in found if " " in name} == set(MESSAGES.split())
    assert found & DEAR == set()


def test_importing_aioprod_alone_loads_its_errors() -> None:
    assert ours(loaded("aioprod")) == modules({"": "_acl_names _base_error _build _error_codes _lazy errors"})


def test_what_the_producer_for_threads_adds() -> None:
    found = ours(loaded("aioprod.sync")) - modules(PRODUCER) - {"aioprod._cython"}
    assert found == modules({"": "sync", "sync": SYNC})
    assert not {name for name in loaded("aioprod; aioprod.Producer") if name.startswith("aioprod.sync")}


def test_tls_loads_no_package_of_others() -> None:
    found = loaded("aioprod.net.tls.contexts, aioprod.net.tls.stores, aioprod.net.tls.rotation")
    assert not [name for name in found if name.partition(".")[0] in ("cryptography", "_cffi_backend")]


def test_what_a_spark_process_loads() -> None:
    pytest.importorskip("pyspark")
    assert ours(loaded("aioprod.spark.datasource")) == modules(DATASOURCE)


@pytest.mark.parametrize(
    ("room", "unused"), [("sink", "reader.reader"), ("sink", "admin"), ("source", "producer.producer")]
)
def test_a_spark_worker_loads_what_it_does(room: str, unused: str) -> None:
    pytest.importorskip("pyspark")
    pytest.importorskip("pyarrow")
    assert f"aioprod.{unused}" not in loaded(f"aioprod.spark.{room}")


@pytest.mark.parametrize("package", LAZY)
def test_every_name_of_a_package_can_be_imported_and_is_listed(package: str) -> None:
    if package == ".spark":
        pytest.importorskip("pyspark")
    module = importlib.import_module(f"aioprod{package}")
    assert set(module.__all__) <= set(dir(module))
    for name in module.__all__:
        assert getattr(module, name) is not None


@pytest.mark.parametrize("package", LAZY)
def test_a_name_that_a_package_lacks_is_an_attribute_error(package: str) -> None:
    module = importlib.import_module(f"aioprod{package}")
    with pytest.raises(AttributeError, match=f"module 'aioprod{package}' has no attribute 'nothing'"):
        _ = module.nothing


def test_shared_transactions_have_a_module_and_are_in_the_root() -> None:
    from aioprod import producer, transactions

    for name in ("TransactionSession", "TransactionHandle"):
        assert getattr(aioprod, name) is getattr(transactions, name) is getattr(producer, name)

"""No module is compiled without being compared: whoever adds a .pxd adds its module here, and to a test beside this."""

from __future__ import annotations

import re
import sysconfig
from pathlib import Path

import pytest

from tests.support.builds import builds
from tools.build_ext import PACKAGE, TRANSLATED, hot_modules

COMPARED = {
    "test_arrow.py": ("arrow.columns", "producer.batching.bulk_columns", "producer.batching.bulk_topics"),
    "test_compat.py": ("compat.aiokafka.batch",),
    "test_core.py": (
        "producer.batching.accumulator",
        "producer.batching.batch",
        "producer.batching.budget",
        "producer.batching.partition_choice",
        "producer.batching.splitting",
        "producer.batching.drain",
        "producer.batching.lifecycle",
        "producer.batching.lines",
        "producer.batching.bulk_values",
        "producer.batching.partition",
        "producer.batching.buffer_pool",
    ),
    "test_patching.py": (),
    "test_producer.py": (
        "producer.batching.produce_response",
        "net.protocol.connection",
        "producer.batching.produce_request",
        "metrics.instruments",
        "metrics.topics",
        "net.connection",
        "net.events",
        "net.link",
        "net.traffic",
        "producer.callbacks",
        "producer.clock",
        "producer.completion",
        "producer.sender",
        "producer.guard",
        "producer.meters",
        "producer.outcomes",
        "producer.scheduler",
        "producer.producer_calls",
        "producer.completions",
        "producer.transactions.calls",
        "record_metadata",
    ),
    "test_reading.py": ("group.available_records", "group.open_batch", "reader.consumed_records"),
    "test_records.py": (
        "consumed_record",
        "records.bounds",
        "records.builder",
        "records.cursor",
        "records.fields",
        "records.parser",
        "records.spare_buffers",
        "records.table",
    ),
    "test_routing.py": ("routing.columns", "routing.hashes", "routing.sticky"),
    "test_send_arrow.py": (),
    "test_sequences.py": ("producer.batching.sequences",),
    "test_sync.py": ("sync.entry", "sync.inbox"),
    "test_wire.py": ("wire.buffer", "wire.codec", "wire.crc", "wire.decoder", "wire.frame"),
}
"""The modules of aioprod that each file here runs on both builds."""

FREELIST = re.compile(r"@cython.freelist\((\d+)\)\ncdef class (\w+)")
LISTS = [
    (declaration.with_suffix(".c"), size, name)
    for declaration in sorted(PACKAGE.rglob("*.pxd"))
    for size, name in FREELIST.findall(declaration.read_text())
]

HOT = sorted(extension.name for extension in hot_modules())


def test_every_compiled_module_is_compared() -> None:
    assert sorted(f"aioprod.{module}" for modules in COMPARED.values() for module in modules) == HOT


def test_the_tests_are_there() -> None:
    assert sorted(COMPARED) == sorted(
        path.name for path in Path(__file__).parent.glob("test_*.py") if path != Path(__file__)
    )


@pytest.mark.parametrize("name", HOT)
def test_each_build_runs_its_own_modules(name: str) -> None:
    compiled, interpreted = (Path(build[name].__file__) for build in builds())
    assert compiled.name.endswith(str(sysconfig.get_config_var("EXT_SUFFIX")))
    assert interpreted.suffix == ".py"


@pytest.mark.parametrize(("in_c", "size", "name"), LISTS, ids=[name for _, _, name in LISTS])
def test_dead_objects_of_declared_classes_are_kept(in_c: Path, size: str, name: str) -> None:
    """Cython 3 forgets the directive of a .pxd where the class has a .py: see `keep_freelists`."""
    translated = (TRANSLATED / in_c).read_text()
    assert re.search(rf"freecount_\w*{name} < {size}\b", translated)


def test_some_classes_have_lists_of_dead_objects() -> None:
    assert {"ConsumedRecord", "RecordMetadata"} <= {name for _, _, name in LISTS}

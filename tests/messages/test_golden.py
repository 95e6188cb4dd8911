"""Messages that Kafka's own classes wrote: read, and written again; `integration/write_golden.py` makes them."""

from __future__ import annotations

import pytest

from aioprod import messages
from aioprod.messages.registry import REQUESTS
from aioprod.wire.codec import decode, encode
from tests.support.golden import as_read, from_base64, from_json, golden_names, read_golden, to_json


def test_there_is_a_file_for_each_api() -> None:
    assert set(golden_names("messages")) == {request.NAME for request in REQUESTS}


@pytest.mark.parametrize("name", golden_names("messages"))
def test_what_kafka_wrote_is_read_and_written_as_kafka_does(name: str) -> None:
    covered = set()
    for sample in read_golden("messages", name):
        kind, version, data = getattr(messages, sample["message"]), sample["version"], from_base64(sample["bytes"])
        message = from_json(kind, version, sample["json"])
        assert decode(kind, version, data) == as_read(message)
        assert encode(message, version) == data
        assert to_json(message, version) == sample["json"]
        covered.add(f"{kind.__name__} {version}")
    kinds = (getattr(messages, name + "Request"), getattr(messages, name + "Response"))
    declared = {
        f"{kind.__name__} {version}" for kind in kinds for version in range(kind.VERSIONS[0], kind.VERSIONS[1] + 1)
    }
    assert covered == declared, "run: python -m integration.write_golden"


@pytest.mark.parametrize("name", golden_names("messages"))
def test_tagged_fields_of_a_newer_kafka_are_skipped(name: str) -> None:
    for sample in read_golden("messages", name):
        if "bytes_unknown_tags" in sample:
            kind, version = getattr(messages, sample["message"]), sample["version"]
            known = decode(kind, version, from_base64(sample["bytes"]))
            assert decode(kind, version, from_base64(sample["bytes_unknown_tags"])) == known

from __future__ import annotations

import pytest

from aioprod.config import SessionConfig
from aioprod.errors import ConfigError
from aioprod.reader import ReaderConfig


def test_defaults_are_those_of_java() -> None:
    config = ReaderConfig(bootstrap_servers=("h:1",))
    assert config.default_api_timeout_ms == 60_000
    assert config.fetch_max_bytes == 50 * 1024 * 1024
    assert config.max_partition_fetch_bytes == 1024 * 1024
    assert config.fetch_max_wait_ms == 500
    assert config.check_crcs


def test_java_names_are_accepted() -> None:
    config = ReaderConfig.from_dict({"bootstrap.servers": "h:1", "max.partition.fetch.bytes": "7", "check.crcs": False})
    assert (config.max_partition_fetch_bytes, config.check_crcs) == (7, False)


@pytest.mark.parametrize("name", ["fetch_max_bytes", "max_partition_fetch_bytes", "default_api_timeout_ms"])
def test_a_limit_of_zero_is_an_error(name: str) -> None:
    with pytest.raises(ConfigError, match=name.replace("_", r"\.")):
        ReaderConfig.from_options(bootstrap_servers="h:1", **{name: 0})


@pytest.mark.parametrize("kind", [SessionConfig, ReaderConfig])
def test_the_rack(kind: type[SessionConfig]) -> None:
    assert kind.from_options(bootstrap_servers="h:1").client_rack == ""
    assert kind.from_options(bootstrap_servers="h:1", client_rack=" b ").client_rack == "b"

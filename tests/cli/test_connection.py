"""How a command is told where its cluster is."""

from __future__ import annotations

from pathlib import Path

import pytest

from aioprod.cli.connection import add_connection_options, config_of
from aioprod.config import ProducerConfig
from aioprod.console.frame import Parser
from aioprod.errors import ConfigError


def configured(*arguments: str) -> ProducerConfig:
    parser = Parser(prog="aioprod some")
    add_connection_options(parser)
    return config_of(parser.parse_args(arguments), ProducerConfig, {"linger.ms": 7})


def test_a_file_loses_against_single_settings_and_these_against_the_servers(tmp_path: Path) -> None:
    file = tmp_path / "client.properties"
    file.write_text("bootstrap.servers=a:1\nlinger.ms=1\nbatch.size=5\nfetch.max.bytes=9\n")
    config = configured("-F", str(file), "-X", "linger.ms=2", "-X", "acks=1", "-X", "enable.idempotence=false")
    assert (config.bootstrap_servers, config.linger_ms, config.batch_size, config.acks) == (("a:1",), 2, 5, 1)
    assert configured("-F", str(file), "-b", "b:2").bootstrap_servers == ("b:2",)


def test_defaults_of_the_command_lose_against_all() -> None:
    assert configured("-b", "a:1").linger_ms == 7
    assert configured("-b", "a:1", "-X", "linger_ms=3").linger_ms == 3


def test_without_servers_the_error_says_how_to_give_them() -> None:
    with pytest.raises(ConfigError) as raised:
        configured("-X", "linger.ms=1")
    assert "-b host:9092" in str(raised.value)


@pytest.mark.parametrize("given", ["linger.ms", "=5", "  =5"])
def test_a_setting_without_a_name_or_a_value_is_refused(given: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        configured("-b", "a:1", "-X", given)
    assert ended.value.code == 2
    assert "is not a setting: write it as linger.ms=20" in capsys.readouterr().err


def test_a_literal_secret_warns_and_is_not_shown(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SOME_PASSWORD", "hidden-secret")
    login = ["-b", "a:1", "-X", "security.protocol=SASL_SSL", "-X", "sasl.mechanism=PLAIN", "-X", "sasl.username=u"]
    configured(*login, "-X", "sasl.password=env:SOME_PASSWORD")
    assert capsys.readouterr().err == ""
    configured(*login, "-X", "sasl.password=quite-secret")
    said = capsys.readouterr().err
    assert "-X sasl.password has a secret" in said
    assert "quite-secret" not in said


def test_a_misspelt_setting_is_named_as_it_was_written_and_where(tmp_path: Path) -> None:
    file = tmp_path / "client.properties"
    file.write_text("bootstrap.servers=a:1\nlinger.mss=1\n")
    with pytest.raises(ConfigError) as raised:
        configured("-F", str(file), "-X", "batch.sise=2")
    assert f"'linger.mss' is not a setting ({file}, line 2). Did you mean 'linger.ms'?" in str(raised.value)
    assert "'batch.sise' is not a setting. Did you mean 'batch.size'?" in str(raised.value)

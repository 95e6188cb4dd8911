"""The frame of the command line, and what is an error before Spark starts."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from typing import Any

import pytest

from aioprod.errors import ConfigError
from aioprod.spark import __main__ as frame
from aioprod.spark.inputs import read_input, sentence, spark_errors
from aioprod.spark.planning import command

NO_SPARK: Any = None


def test_help_names_every_job(capsys: pytest.CaptureFixture[str]) -> None:
    assert frame.main(["--help"]) == 0
    told = capsys.readouterr().out
    assert all(f"\n  {job} " in told for job in ("load", "audit", "plan"))


@pytest.mark.parametrize("arguments", [[], ["plann"]])
def test_no_such_job(arguments: Sequence[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert frame.main(arguments) == 2
    assert "usage: python -m aioprod.spark {load,audit,plan}" in capsys.readouterr().err


def test_help_of_a_job_imports_no_spark() -> None:
    program = (
        "import sys; from aioprod.spark.__main__ import main\n"
        "try: main(['plan', '--help'])\n"
        "except SystemExit as end: assert end.code == 0\n"
        "assert not {'pyspark', 'pyarrow', 'numpy', 'matplotlib', 'rich'} & set(sys.modules), sorted(sys.modules)\n"
    )
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stderr
    assert "--partitioners" in ended.stdout


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (
            ["--partitioners", "murmurr2"],
            "python -m aioprod.spark plan: 'murmurr2' names no partitioner.\nDid you mean 'murmur2'?\n",
        ),
        (["--counts", "12,0"], "python -m aioprod.spark plan: A topic can't have 0 partitions"),
        (
            ["--from", "jsn:x"],
            "python -m aioprod.spark plan: The input 'jsn:x' is not understood.\nDid you mean json:x?\n",
        ),
        (
            ["--from", "json:nowhere/x"],
            "python -m aioprod.spark plan: The input 'json:nowhere/x' can't be read: there is no",
        ),
        (["--consumers", "-3"], "python -m aioprod.spark plan: consumers is -3"),
    ],
)
def test_a_plan_that_makes_no_sense_is_refused_without_spark(
    arguments: list[str], said: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(command, "session", lambda: pytest.fail("Spark is started"))
    with pytest.raises(SystemExit, match="2"):
        frame.main(["plan", "--from", "json:x", "--key", "k", "--counts", "4", *arguments])
    assert capsys.readouterr().err.startswith(said)


def test_counts_have_to_be_numbers(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="2"):
        frame.main(["plan", "--from", "json:x", "--key", "k", "--counts", "4,many"])
    assert "'many' is not a whole number" in capsys.readouterr().err


def test_interrupted(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(arguments: Sequence[str]) -> int:
        raise KeyboardInterrupt

    monkeypatch.setattr(command, "main", interrupted)
    assert frame.main(["plan"]) == 130
    assert capsys.readouterr().err == "aioprod.spark plan: interrupted\n"


@pytest.mark.parametrize(
    ("source", "hint"),
    [
        ("jsn:/data", "Did you mean json:/data?"),
        ("parquet", "Give json:PATH, parquet:PATH, csv:PATH or table:NAME."),
        ("csv:", "Give json:PATH"),
        ("/data/orders.json", "Did you mean json:/data/orders.json?"),
        ("orders.csv.gz", "Did you mean csv:orders.csv.gz?"),
        ("table", "Give json:PATH"),
    ],
)
def test_inputs_of_another_kind(source: str, hint: str) -> None:
    with pytest.raises(ConfigError, match="is not understood") as caught:
        read_input(NO_SPARK, source)
    assert caught.value.hint is not None
    assert caught.value.hint.startswith(hint)


def test_what_spark_says_in_one_sentence() -> None:
    class SparkSaysError(Exception):
        pass

    SparkSaysError.__module__ = "pyspark.errors.exceptions"
    said = SparkSaysError(
        "\n[PATH_NOT_FOUND] Path does not exist: file:/x. SQLSTATE: 42K03\n== SQL ==\nat scala.Something"
    )
    assert sentence(said) == "Path does not exist: file:/x."
    with (
        pytest.raises(ConfigError, match=r"^The input can't be read: Path does not exist: file:/x\.$"),
        spark_errors("The input can't be read"),
    ):
        raise said
    with pytest.raises(ZeroDivisionError), spark_errors("It can't be read"):
        raise ZeroDivisionError

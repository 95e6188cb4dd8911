"""`aioprod partition`: where keys go."""

from __future__ import annotations

import io
import os
import subprocess
import sys

import pytest

from aioprod.cli.__main__ import main
from aioprod.routing import HASH_PARTITIONERS, hashes

PARTITION_OF = {
    "murmur2": hashes.murmur2_partition,
    "crc32": hashes.crc32_partition,
    "fnv1a": hashes.fnv1a_partition,
    "murmur3": hashes.murmur3_partition,
}


def rows(told: str) -> list[list[str]]:
    return [line.split(maxsplit=1) for line in told.splitlines()]


def refused(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> str:
    """The one line on stderr of a call that is wrong."""
    with pytest.raises(SystemExit) as ended:
        main(["partition", *arguments])
    said = capsys.readouterr()
    assert ended.value.code == 2
    (line,) = said.err.splitlines()
    return line.removesuffix(" (see aioprod partition --help).")


@pytest.mark.parametrize("partitioner", PARTITION_OF)
def test_where_keys_go(partitioner: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["partition", "table-7", "ключ", "42", "--partitions", "12", "--partitioner", partitioner]) == 0
    where = [str(PARTITION_OF[partitioner](key.encode(), 12)) for key in ("table-7", "ключ", "42")]
    assert rows(capsys.readouterr().out) == [
        ["partition", "key"],
        [where[0], "table-7"],
        [where[1], "ключ"],
        [where[2], "42"],
    ]


def test_murmur2_is_what_javas_producer_does(capsys: pytest.CaptureFixture[str]) -> None:
    # Java: Utils.toPositive(Utils.murmur2("21".getBytes())) is 1173551340, as its own tests have it (-973932308).
    assert main(["partition", "21", "--partitions", "1000"]) == 0
    assert rows(capsys.readouterr().out)[1] == [str(1173551340 % 1000), "21"]


def test_all_hashes_side_by_side(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["partition", "a", "b c", "--partitions", "100000", "--all"]) == 0
    head, *told = capsys.readouterr().out.splitlines()
    assert head.split() == [*PARTITION_OF, "key"]
    for key, line in zip(("a", "b c"), told, strict=True):
        assert line.split(maxsplit=4) == [*(str(each(key.encode(), 100000)) for each in PARTITION_OF.values()), key]
        assert [line.index(f"  {key}")] == [head.index("  key")]


def test_bytes_in_hexadecimal(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["partition", "00ff", "0x6B6579", "", "--hex", "--partitions", "12"]) == 0
    where = [str(hashes.murmur2_partition(key, 12)) for key in (b"\x00\xff", b"key", b"")]
    assert rows(capsys.readouterr().out)[1:] == [[where[0], "0x00ff"], [where[1], "key"], [where[2]]]


def test_an_empty_key_that_is_not_hashed_goes_anywhere(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["partition", "", "a", "--partitions", "12", "--partitioner", "consistent_random"]) == 0
    assert rows(capsys.readouterr().out)[1:] == [["any"], [str(hashes.crc32_partition(b"a", 12)), "a"]]


def test_keys_from_stdin_a_line_each(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b"a b\r\n\n\xff\nlast")))
    assert main(["partition", "first", "-", "after", "--partitions", "12"]) == 0
    keys = [b"first", b"a b", b"", b"\xff", b"last", b"after"]
    where = [str(hashes.murmur2_partition(key, 12)) for key in keys]
    shown = ["first", "a b", "", "0xff", "last", "after"]
    assert [" ".join(row).strip() for row in rows(capsys.readouterr().out)[1:]] == [
        f"{place} {key}".strip() for place, key in zip(where, shown, strict=True)
    ]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["a"], "the following arguments are required: --partitions"),
        (["--partitions", "12"], "the following arguments are required: KEY"),
        (["a", "--partitions", "0"], "argument --partitions: '0' is not a whole number from 1 to 100000"),
        (["a", "--partitions", "x"], "argument --partitions: 'x' is not a whole number from 1 to 100000"),
        (
            ["a", "--partitions", "1", "--partitioner", "murmurr2"],
            "argument --partitioner: 'murmurr2' is not a partitioner: did you mean murmur2?",
        ),
        (
            ["a", "--partitions", "1", "--partitioner", "nope"],
            f"argument --partitioner: 'nope' is not a partitioner: take one of {', '.join(HASH_PARTITIONERS)}",
        ),
        (
            ["a", "--partitions", "1", "--partitioner", "no.such:Partitioner"],
            "argument --partitioner: The partitioner 'no.such:Partitioner' can't be loaded: there is no module 'no'",
        ),
        (
            ["a", "--partitions", "1", "--all", "--partitioner", "crc32"],
            "argument --partitioner: not allowed with argument --all",
        ),
        (
            ["6b", "6b6", "--partitions", "1", "--hex"],
            "argument KEY: '6b6' is not hexadecimal: write two digits a byte, such as 6b6579",
        ),
    ],
)
def test_what_is_wrong_is_one_sentence_and_nothing_else(
    arguments: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert refused(arguments, capsys) == f"aioprod partition: {said}"


def test_partitioners_that_look_at_no_key(capsys: pytest.CaptureFixture[str]) -> None:
    told = refused(["a", "--partitions", "1", "--partitioner", "round_robin"], capsys)
    assert told.startswith(
        "aioprod partition: argument --partitioner: The partitioner 'round_robin' does not choose by"
    )


def test_signs_that_stdout_cannot_hold_are_escaped() -> None:
    ended = subprocess.run(
        [sys.executable, "-m", "aioprod.cli", "partition", "ключ", "--partitions", "1"],
        capture_output=True,
        text=True,
        check=True,
        env=os.environ | {"PYTHONIOENCODING": "ascii"},
    )
    assert ended.stdout.splitlines()[1:] == [r"        0  \u043a\u043b\u044e\u0447"]


def test_bytes_that_are_no_text_come_as_they_were_typed() -> None:
    ended = subprocess.run(
        [sys.executable, "-m", "aioprod.cli", "partition", b"\xff", "--partitions", "12"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert rows(ended.stdout)[1] == [str(hashes.murmur2_partition(b"\xff", 12)), "0xff"]
    assert ended.stderr == ""

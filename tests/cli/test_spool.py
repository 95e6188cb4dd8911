"""`aioprod spool`: what folders have, which processes have them open, and bringing their records to Kafka."""

from __future__ import annotations

import asyncio
import json
import re
import shutil
import signal
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest

from aioprod.cli.__main__ import main
from aioprod.cli.spool.command import make_parser
from aioprod.spool import Spool, SpooledProducer
from aioprod.testing.fixtures import FakeClusterThread, running_fake_cluster
from tests.support import spool_folders
from tests.support.programs import program
from tests.support.spool_folders import TIMESTAMP, damage, segments


@pytest.fixture
def cluster() -> Iterator[FakeClusterThread]:
    with running_fake_cluster(1) as cluster:
        cluster.create_topic("t", max_message_bytes=100_000)
        yield cluster


def fill(folder: Path, *groups: Sequence[bytes], segment_bytes: int | None = None) -> str:
    """A folder with these values."""
    asyncio.run(spool_folders.fill(folder, *groups, segment_bytes=segment_bytes))
    return str(folder)


def values(cluster: FakeClusterThread) -> list[bytes | None]:
    return [record.value for record in cluster.topics["t"].records()]


def content(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


Out = Callable[[], str]


@pytest.fixture
def out(capfd: pytest.CaptureFixture[str]) -> Out:
    capfd.readouterr()
    return lambda: capfd.readouterr().out


def status_of(folder: str, out: Out) -> dict[str, object]:
    assert main(["spool", "status", "--json", folder]) == 0
    (found,) = json.loads(out())
    return dict(found)


# --- status


def test_the_status_of_a_folder(tmp_path: Path, out: Out) -> None:
    folder = fill(tmp_path, [b"one", b"two"], [b"three"])
    before = content(tmp_path)
    found = status_of(folder, out)
    assert found == {
        "folder": folder,
        "id": (tmp_path / "id").read_text().split()[-1],
        "kept": 3,
        "first": 1,
        "last": 3,
        "oldest_timestamp": TIMESTAMP,
        "segments": 1,
        "bytes": segments(tmp_path)[0].stat().st_size,
        "set_aside": 0,
        "written": False,
        "relayed": False,
    }
    assert main(["spool", "status", folder]) == 0
    text = out()
    assert "1 to 3" in text
    assert "2023-11-14T22:13:20Z" in text
    assert content(tmp_path) == before


def test_the_status_of_several_folders_one_of_which_is_none(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    one, other = fill(tmp_path / "one", [b"1"]), fill(tmp_path / "other", [b"1", b"2"])
    (tmp_path / "none").mkdir()
    missing, none = str(tmp_path / "missing"), str(tmp_path / "none")
    assert main(["spool", "status", "--json", one, missing, none, other]) == 1
    captured = capfd.readouterr()
    assert [found["kept"] for found in json.loads(captured.out)] == [1, 2]
    assert f"There is no folder {missing}." in captured.err
    assert "has no file 'id'" in captured.err
    assert list((tmp_path / "none").iterdir()) == []
    assert not (tmp_path / "missing").exists()


def test_status_says_who_has_the_folder_open_and_disturbs_nobody(tmp_path: Path, out: Out) -> None:
    folder = fill(tmp_path, [b"one"])

    async def look() -> tuple[dict[str, object], dict[str, object]]:
        async with Spool(tmp_path):
            by_one = await asyncio.to_thread(status_of, folder, out)
        async with SpooledProducer("localhost:1", folder=tmp_path, relays=False) as producer:
            await producer.send("t", b"two")
            return by_one, await asyncio.to_thread(status_of, folder, out)

    by_one, by_two = asyncio.run(look())
    assert (by_one["written"], by_one["relayed"], by_one["kept"]) == (True, True, 1)
    assert (by_two["written"], by_two["relayed"], by_two["kept"]) == (True, False, 2)
    after = status_of(folder, out)
    assert (after["written"], after["relayed"]) == (False, False)


def test_the_status_of_what_was_delivered_set_aside_and_dropped(
    cluster: FakeClusterThread, tmp_path: Path, out: Out
) -> None:
    folder = fill(tmp_path, [b"one", bytes(200_000)], [b"three"])
    assert drain(cluster, folder, "--poison", "set-aside") == 0
    assert [found["set_aside"] for found in json.loads(out())] == [1]
    found = status_of(folder, out)
    assert (found["kept"], found["first"], found["last"], found["set_aside"]) == (0, None, 3, 1)
    fill(tmp_path, [b"four"], [b"five"])
    damage(segments(tmp_path)[-1], b"five")
    assert main(["spool", "verify", "--give-up-damaged", folder]) == 0
    out()
    found = status_of(folder, out)
    assert (found["kept"], found["first"], found["last"]) == (1, 4, 5)


# --- verify


def test_a_whole_folder_is_verified_and_not_changed(tmp_path: Path, out: Out) -> None:
    folder = fill(tmp_path, [b"one", b"two"], [b"three"], segment_bytes=1)
    before = content(tmp_path)
    assert main(["spool", "verify", folder]) == 0
    assert out() == "3 segments, 3 records read. All of it is whole.\n"
    assert content(tmp_path) == before


def test_what_is_damaged_is_said_and_dropped_on_request(tmp_path: Path, out: Out) -> None:
    folder = fill(tmp_path, [b"one"], [b"two", b"three"], [b"four"])
    at = damage(segments(tmp_path)[0], b"two")
    before = content(tmp_path)
    assert main(["spool", "verify", folder]) == 1
    text = out()
    assert f"The segment {segments(tmp_path)[0].name} is damaged at byte " in text
    assert "the checksum of record 0 of 2 is wrong: 1 record can't be read, number 2; number 3 follows at byte" in text
    assert f"{at + 3}." in text
    assert "--give-up-damaged" in text
    assert content(tmp_path) == before
    assert main(["spool", "verify", "--give-up-damaged", "--json", folder]) == 0
    found = json.loads(out())
    assert (found["records"], found["dropped"], found["damaged"], len(found["repaired"])) == (3, 1, [], 1)
    assert main(["spool", "verify", folder]) == 0
    assert out() == "1 segment, 3 records read, 1 record dropped. All of it is whole.\n"
    assert spool_folders.kept_values(tmp_path) == [b"one", b"three", b"four"]


def test_what_a_crash_has_cut_off_is_no_damage(tmp_path: Path, out: Out) -> None:
    folder = fill(tmp_path, [b"one"], [b"two"])
    path = segments(tmp_path)[0]
    data = path.read_bytes()
    path.write_bytes(data[: data.index(b"two") + 1])
    (tmp_path / "end").unlink()
    assert main(["spool", "verify", folder]) == 0
    assert "was cut off by a crash; no call was answered" in out()


@pytest.mark.parametrize("option", ["--give-up-damaged", "--new-id"])
def test_a_folder_that_is_open_is_not_changed(tmp_path: Path, option: str, capfd: pytest.CaptureFixture[str]) -> None:
    folder = fill(tmp_path, [b"one"])

    async def verify() -> int:
        async with SpooledProducer("localhost:1", folder=tmp_path, relays=False):
            assert await asyncio.to_thread(main, ["spool", "verify", folder]) == 0
            return await asyncio.to_thread(main, ["spool", "verify", option, folder])

    assert asyncio.run(verify()) == 1
    assert "Another process has the spool" in capfd.readouterr().err


def test_options_that_change_leave_a_folder_that_is_no_spool_as_it_is(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    assert main(["spool", "verify", "--new-id", str(tmp_path)]) == 1
    assert "has no file 'id'" in capfd.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_a_copy_with_a_new_id_sends_what_it_has(cluster: FakeClusterThread, tmp_path: Path, out: Out) -> None:
    folder = fill(tmp_path / "one", [b"one"], [b"two"])
    copy = str(tmp_path / "copy")
    shutil.copytree(folder, copy)
    assert drain(cluster, folder) == 0
    out()
    assert main(["spool", "verify", "--new-id", copy]) == 0
    assert "The folder is the spool " in out()
    assert status_of(copy, out)["id"] != status_of(folder, out)["id"]
    assert drain(cluster, copy) == 0
    assert values(cluster) == [b"one", b"two"] * 2


def test_a_new_id_that_was_interrupted_is_said_by_every_command(
    cluster: FakeClusterThread, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    folder = fill(tmp_path, [b"one"])
    shutil.copy(tmp_path / "id", tmp_path / "new-id")
    for arguments in (["status"], ["verify"], ["export"], ["drain", "--until-empty", "-b", cluster.bootstrap]):
        assert main(["spool", *arguments, folder]) == 1
        assert f"aioprod spool verify {folder} --new-id; nothing is lost" in capfd.readouterr().err
    assert main(["spool", "verify", "--new-id", folder]) == 0
    assert main(["spool", "status", folder]) == 0


# --- export


def test_the_records_that_wait_as_lines(cluster: FakeClusterThread, tmp_path: Path, out: Out) -> None:
    folder = fill(tmp_path, [b"one", bytes(200_000)], [b"\xff"])
    assert drain(cluster, folder, "--poison", "set-aside") == 0
    fill(tmp_path, [b"four"])
    out()
    assert main(["spool", "export", folder]) == 0
    (line,) = out().splitlines()
    found = json.loads(line)
    assert found.pop("position").startswith("4.")
    assert found == {
        "number": 4,
        "topic": "t",
        "partition": None,
        "timestamp": TIMESTAMP,
        "key": "k",
        "value": "four",
        "headers": [],
    }
    assert main(["spool", "export", "--all", folder]) == 0
    assert [json.loads(line)["number"] for line in out().splitlines()] == [1, 2, 3, 4]
    assert main(["spool", "export", "--set-aside", folder]) == 0
    (line,) = out().splitlines()
    assert json.loads(line)["number"] == 2
    assert json.loads(line)["reason"]


def test_an_export_ends_at_what_is_damaged(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    folder = fill(tmp_path, [b"one", b"two", b"three"], [b"four"])
    damage(segments(tmp_path)[0], b"two")
    assert main(["spool", "export", folder]) == 1
    captured = capfd.readouterr()
    assert [json.loads(line)["value"] for line in captured.out.splitlines()] == ["one"]
    assert "aioprod spool: The segment" in captured.err
    assert "number 2; number 3 follows" in captured.err


# --- drain


def drain(cluster: FakeClusterThread, *arguments: str) -> int:
    return main(["spool", "drain", "-b", cluster.bootstrap, "--until-empty", "--json", *arguments])


def test_several_folders_are_drained_until_they_are_empty(cluster: FakeClusterThread, tmp_path: Path, out: Out) -> None:
    folders = [fill(tmp_path / str(index), [b"%d" % index, b"more"]) for index in range(3)]
    assert drain(cluster, *folders) == 0
    assert json.loads(out()) == [
        {"folder": folder, "delivered": 2, "set_aside": 0, "empty": True, "error": None} for folder in folders
    ]
    assert sorted(value or b"" for value in values(cluster)) == [b"0", b"1", b"2", b"more", b"more", b"more"]
    assert drain(cluster, *folders) == 0
    assert [found["delivered"] for found in json.loads(out())] == [0, 0, 0]
    assert len(values(cluster)) == 6


def test_a_folder_that_fails_does_not_end_the_others(
    cluster: FakeClusterThread, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    good, bad = fill(tmp_path / "good", [b"good"]), fill(tmp_path / "bad", [b"first"], [b"second"], [b"third"])
    damage(segments(tmp_path / "bad")[0], b"second")
    missing = str(tmp_path / "missing")
    assert drain(cluster, bad, missing, good) == 1
    captured = capfd.readouterr()
    found = json.loads(captured.out)
    assert [(one["delivered"], one["empty"], one["error"] and one["error"]["type"]) for one in found] == [
        (1, False, "SpoolError"),
        (0, False, "SpoolError"),
        (1, True, None),
    ]
    assert f"{bad} is not relayed any more: The segment" in captured.err
    assert not Path(missing).exists()
    assert sorted(value or b"" for value in values(cluster)) == [b"first", b"good"]


def test_a_drain_runs_beside_a_producer_until_it_is_ended(cluster: FakeClusterThread, tmp_path: Path) -> None:
    folder = fill(tmp_path, [b"one"])

    async def send() -> None:
        async with SpooledProducer("localhost:1", folder=tmp_path, relays=False) as producer:
            await producer.send("t", b"two")
            while len(values(cluster)) < 2:
                await asyncio.sleep(0.01)

    with program("spool", "drain", folder, "-b", cluster.bootstrap) as running:
        asyncio.run(asyncio.wait_for(send(), 60))
        running.send_signal(signal.SIGTERM)
        output, errors = running.communicate(timeout=60)
    assert running.returncode == 130
    assert output == b""
    assert re.search(rb": [12] records? delivered; ", errors)
    assert drain(cluster, folder) == 0
    assert values(cluster) == [b"one", b"two"]


def test_wrong_arguments(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    for arguments in ([], ["drain"], ["status"], ["drain", str(tmp_path)], ["export", "--all", "--set-aside", "x"]):
        with pytest.raises(SystemExit) as raised:
            main(["spool", *arguments])
        assert raised.value.code == 2
    assert "No broker is given" in capsys.readouterr().err
    assert make_parser().parse_args(["drain", "x"]).poison == "stop"

"""The archive of a broker's classes, with a stand-in for Java that writes one when it ends, or does not."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from aioprod.testing.kafka.archive import archive_folder, class_archive
from aioprod.testing.kafka.backends import LocalBackend, Plan
from aioprod.testing.kafka.broker_properties import Ports
from aioprod.testing.kafka.local import LocalNode

Java = Callable[[str], Path]

BROKER = """#!/bin/sh
case "$*" in
  *-version*) echo 'openjdk version "17.0.1"' >&2; exit ;;
  *StorageTool*) exit ;;
esac
for option; do case $option in -XX:ArchiveClassesAtExit=*) archive=${option#*=} ;; esac; done
trap '%s; kill $sleep; exit' TERM
echo "Kafka Server started"
sleep 60 & sleep=$!
wait
"""
ARCHIVES = 'echo classes > "$archive"'


@pytest.fixture
def java(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Java:
    """The Java of this machine, which runs this script."""

    def install(script: str) -> Path:
        program = tmp_path / "home" / "bin" / "java"
        program.parent.mkdir(parents=True)
        program.write_text(script)
        program.chmod(0o755)
        monkeypatch.setenv("JAVA_HOME", str(tmp_path / "home"))
        return program

    return install


@pytest.fixture
def libs(cache: Path) -> Path:
    libs = cache / "kafka-4.4.0"
    libs.mkdir(parents=True)
    return libs


def test_it_is_made_once_and_brokers_load_it(java: Java, libs: Path) -> None:
    program = java(BROKER % ARCHIVES)
    lines: list[str] = []
    nodes = []
    for _ in range(2):
        backend = LocalBackend("4.4.0", lines.append)
        nodes.append(backend.node(1, Plan({1: Ports(1, 2, 3)}, {1: 1}, {})))
        backend.close()
    archive = archive_folder(program, libs) / "classes.jsa"
    assert archive.read_text() == "classes\n"
    for node in nodes:
        assert isinstance(node, LocalNode)
        assert node.java[:2] == [str(program), f"-XX:SharedArchiveFile={archive}"]
    assert lines == ["archiving the classes of kafka-4.4.0, which makes brokers start faster (once)"]


def test_a_java_that_makes_none_is_not_asked_again(java: Java, libs: Path) -> None:
    program = java(BROKER % ":")
    lines: list[str] = []
    assert [class_archive(program, libs, lines.append) for _ in range(2)] == [None, None]
    assert len(lines) == 1


def test_another_build_of_java_gets_its_own(java: Java, libs: Path) -> None:
    program = java("#!/bin/sh\n")
    before = archive_folder(program, libs)
    program.touch()
    assert archive_folder(program, libs) != before


def test_a_broker_that_does_not_start_leaves_none(java: Java, libs: Path) -> None:
    program = java("#!/bin/sh\ncase $* in *StorageTool*) ;; *) echo out of memory; exit 1 ;; esac\n")
    lines: list[str] = []
    assert class_archive(program, libs, lines.append) is None
    assert "out of memory" in lines[-1]
    assert not archive_folder(program, libs).exists()


def test_without_a_cache_that_can_be_written_there_is_none(java: Java, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    lines: list[str] = []
    assert class_archive(java("#!/bin/sh\n"), tmp_path / "file" / "kafka-4.4.0", lines.append) is None
    assert lines[-1].startswith("brokers start without an archive of their classes: ")

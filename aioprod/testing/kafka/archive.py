"""The archive of the classes that a broker loads (Java's AppCDS), which halves the CPU time of its start.

A broker that starts once and ends writes it, into the cache folder beside the jars. What it was made by is in its
name; Java itself checks it against its build and the jars, and loads from these what does not fit.
"""

from __future__ import annotations

import hashlib
import tempfile
import time
import uuid
from pathlib import Path
from typing import Final

from aioprod.testing.errors import KafkaStartError
from aioprod.testing.kafka.broker_properties import broker_properties, free_ports
from aioprod.testing.kafka.cache import Progress, once
from aioprod.testing.kafka.local import LocalNode
from aioprod.testing.kafka.reaper import Reaper

__all__ = ["archive_folder", "class_archive"]

_NAME: Final = "classes.jsa"
_STARTED: Final = "Kafka Server started"
_START_TIMEOUT_S: Final = 90.0
_POLL_S: Final = 0.1


def class_archive(java: Path, libs: Path, progress: Progress) -> Path | None:
    """The archive for this Java and the jars in the folder `libs`, made if it is not there; None if there can be none.

    Blocks for seconds the first time. A cache folder that can't be written, a broker that does not start and a Java
    that makes no archives are no errors: brokers start without it.
    """
    try:
        folder = once(archive_folder(java, libs), lambda part: _record(java, libs, part, progress), progress)
    except (OSError, KafkaStartError) as error:
        progress(f"brokers start without an archive of their classes: {error}")
        return None
    # A Java that writes none is not started for it again: the folder is empty.
    archive = folder / _NAME
    return archive if archive.exists() else None


def archive_folder(java: Path, libs: Path) -> Path:
    """Where it is: a folder beside `libs`, of its own for each build of Java and each place of the jars."""
    program = java.resolve()
    made_by = f"{program}\0{program.stat().st_mtime_ns}\0{libs}"
    return libs.with_name(f"{libs.name}-classes-{hashlib.sha256(made_by.encode()).hexdigest()[:16]}")


def _record(java: Path, libs: Path, folder: Path, progress: Progress) -> None:
    progress(f"archiving the classes of {libs.name}, which makes brokers start faster (once)")
    work = Path(tempfile.mkdtemp(prefix="aioprod-kafka-"))
    reaper = Reaper()
    ports = {1: free_ports(1)[0]}
    node = LocalNode(
        node_id=1,
        folder=work / "broker",
        java=[str(java), "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC"],
        libs=libs,
        properties=broker_properties(1, ports, advertised_port=ports[1].client, data=str(work / "data"), properties={}),
        format_options=(),
        cluster_id=uuid.uuid4().hex[:22],
        changed=lambda: reaper.watch(pids=[] if node.pid is None else [node.pid], folders=[str(work)]),
        broker_options=[f"-XX:ArchiveClassesAtExit={folder / _NAME}"],
    )
    try:
        node.start()
        _wait_until_started(node)
        node.stop()
    finally:
        reaper.close()


def _wait_until_started(node: LocalNode) -> None:
    ends = time.monotonic() + _START_TIMEOUT_S
    while _STARTED not in node.log():
        if not node.alive() or time.monotonic() > ends:
            raise KafkaStartError(f"a broker did not start; the end of its log:\n{node.log()}")
        time.sleep(_POLL_S)

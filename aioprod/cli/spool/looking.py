"""`aioprod spool status`, `verify` and `export`: what folders have, and making them whole, or spools of their own."""

from __future__ import annotations

import os
import sys
import time
from argparse import Namespace
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from aioprod._words import bytes_of, counted
from aioprod.cli.administration import answer
from aioprod.console.escapes import escaped
from aioprod.console.tables import Part, Table
from aioprod.errors import AioprodError, SpoolError
from aioprod.spool.aside import aside_lines, entry_line
from aioprod.spool.files import READER, WRITER, Files, lock
from aioprod.spool.inspection import Kind, description_of, list_segments, walk
from aioprod.spool.looking import Status, files_of, records_of, status_of
from aioprod.spool.notes import read_id
from aioprod.spool.repair import drop_damaged, give_new_id, owners_of
from aioprod.spool.storage import unusable

__all__ = ["export", "failed", "status", "verify"]


def status(given: Namespace) -> int:
    """Show what each folder has; returns 1 where one is no spool or can't be read."""
    found: dict[str, Status] = {}
    exit_status = 0
    for folder in given.folders:
        try:
            with _opened(folder) as files:
                found[folder] = status_of(files, Path(folder))
        except SpoolError as error:
            failed("status", error)
            exit_status = 1
    answer(given, [_document(folder, one) for folder, one in found.items()], lambda: list(_tables(found)))
    return exit_status


def _document(folder: str, found: Status) -> dict[str, Any]:
    return {
        "folder": folder,
        "id": found.spool_id,
        "kept": found.kept_records,
        "first": found.first_number,
        "last": found.last_number,
        "oldest_timestamp": found.oldest_timestamp,
        "segments": found.segments,
        "bytes": found.bytes,
        "set_aside": found.set_aside_records,
        "written": found.is_written,
        "relayed": found.is_relayed,
    }


def _tables(found: dict[str, Status]) -> Iterator[Part]:
    for folder, one in found.items():
        rows: list[tuple[object, ...]] = [
            ("records kept", one.kept_records),
            ("numbers", None if one.first_number is None else f"{one.first_number} to {one.last_number}"),
            ("oldest", None if one.oldest_timestamp is None else _age(one.oldest_timestamp)),
            ("files", f"{counted(one.segments, 'segment')}, {bytes_of(one.bytes)}"),
            ("set aside", one.set_aside_records),
            ("open to write", "yes" if one.is_written else "no"),
            ("open to relay", "yes" if one.is_relayed else "no"),
        ]
        yield Table(f"Spool {folder}", f"Its id is {one.spool_id}.", ("what", "value"), rows)


def _age(timestamp: int) -> str:
    try:
        at = datetime.fromtimestamp(timestamp / 1000, UTC).isoformat(timespec="seconds")
    except (ValueError, OverflowError, OSError):
        return f"timestamp {timestamp}"
    return f"{at.removesuffix('+00:00')}Z, {max(time.time() - timestamp / 1000, 0.0):,.0f} s ago"


def verify(given: Namespace) -> int:
    """Read all records; returns 1 where some can't be read."""
    with _opened(given.folder) as files:
        owners_of(files, given.folder)  # A folder that is no spool gets no file of a lock.
        if given.drop_damaged or given.new_id:
            for name in (WRITER, READER):
                lock(files, name, given.folder)
        gone: list[str] = []
        if given.drop_damaged:
            for segment, part in drop_damaged(files, given.folder):
                gone.append(description_of(segment, part))
                _say(given, f"Dropped: {gone[-1]}")
        if given.new_id:
            identity = give_new_id(files, given.folder, os.urandom)
            _say(given, f"The folder is the spool {identity.spool_id.hex()} now, from number {identity.begin} on.")
        return _verify(given, files, gone)


def _verify(given: Namespace, files: Files, gone: list[str]) -> int:
    spool_id = read_id(files, given.folder).spool_id
    segments = list_segments(files, owners_of(files, given.folder))
    records = dropped = 0
    damaged: list[str] = []
    torn: list[str] = []
    for segment, part in walk(files, segments):
        if part.kind is Kind.WHOLE:
            records += part.records if part.data else 0
            dropped += 0 if part.data else part.records
        else:
            (damaged if part.kind is Kind.DAMAGED else torn).append(description_of(segment, part))
    document = {
        "folder": given.folder,
        "id": spool_id.hex(),
        "segments": len(segments),
        "records": records,
        "dropped": dropped,
        "damaged": damaged,
        "torn": torn,
        "repaired": gone,
    }
    without = f", {counted(dropped, 'record')} dropped" if dropped else ""
    read = f"{counted(len(segments), 'segment', ',')}, {counted(records, 'record', ',')} read{without}"
    verdict = f"{counted(len(damaged), 'place')} damaged." if damaged else "All of it is whole."
    hint = ["Drop what can't be read, and keep the rest in order: --give-up-damaged."] if damaged else []
    answer(given, document, lambda: ["\n".join([*damaged, *torn, f"{read}. {verdict}", *hint])])
    return 1 if damaged else 0


def export(given: Namespace) -> int:
    """Write records to stdout, each a line; returns 0 when all could be read."""
    with _opened(given.folder) as files:
        output = sys.stdout.buffer
        if given.set_aside:
            read_id(files, given.folder)
            output.write(aside_lines(files))
            return 0
        try:
            for record, position in records_of(files, given.folder, is_all=given.all):
                output.write(entry_line(record, position))
        finally:
            output.flush()
        return 0


def failed(action: str, error: AioprodError) -> None:
    """Say what went wrong with one folder of several."""
    for line in filter(None, [f"aioprod spool {action}: {error.message}", error.hint]):
        sys.stderr.write(f"{escaped(line)}\n")


def _say(given: Namespace, text: str) -> None:
    """A line for people, which is not part of a JSON document."""
    (sys.stderr if given.json else sys.stdout).write(f"{escaped(text)}\n")


@contextmanager
def _opened(folder: str) -> Iterator[Files]:
    """The files of a folder; an error of the system is a SpoolError."""
    files = files_of(Path(folder))
    try:
        yield files
    except BrokenPipeError:
        raise
    except OSError as error:
        raise unusable(folder, error) from error
    finally:
        files.close()

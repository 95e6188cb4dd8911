"""`python -m tests.fuzz [TARGET ...] --seconds N`: search each target that long, then report what it found.

`--sanitize` searches the compiled modules, built with AddressSanitizer, and needs no atheris.

Results are kept in `.fuzz/`: corpora, with which the next search starts, and findings.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import re
import subprocess
import sys
from dataclasses import dataclass
from fnmatch import fnmatch
from pathlib import Path
from typing import Final

from tests.fuzz import sanitizer
from tools.covered_rooms import Covered

KEPT: Final = Path(".fuzz")
REACHED: Final = {
    "responses": "aioprod/wire/buffer.py,aioprod/wire/decoder.py,aioprod/messages/negotiation.py",
    "requests": "aioprod/wire/frame.py,aioprod/wire/decoder.py,aioprod/messages/registry.py",
    "framing": "aioprod/wire/frame.py,aioprod/net/protocol/connection.py",
    "connection": "aioprod/net/connection.py,aioprod/net/protocol/connection.py",
    "answer": "aioprod/producer/batching/produce.py",
    "metadata": "aioprod/cluster/*.py",
    "batches": "aioprod/records/parser.py,aioprod/records/fields.py,aioprod/records/table.py",
    "codecs": "aioprod/records/compression.py",
    "builder": "aioprod/records/builder.py,aioprod/records/cursor.py,aioprod/records/headers.py",
    "login": "aioprod/net/protocol/login.py,aioprod/net/protocol/sasl/*.py",
    "tokens": "aioprod/net/protocol/sasl/claims.py",
    "jaas": "aioprod/config/_jaas.py",
    "pem": "aioprod/net/tls/certificates.py",
    "arrow": "aioprod/arrow/columns.py,aioprod/arrow/views.py,aioprod/producer/batching/bulk_columns.py",
    "stores": "aioprod/net/tls/jks.py,aioprod/net/length_prefixed.py,aioprod/net/tls/certificates.py",
}
"""The modules that a target is for; the report has the coverage of them by its corpus."""

INPUT_SIZE_MAX: Final = 8192
INPUT_TIMEOUT_S: Final = 10


@dataclass(frozen=True, slots=True)
class Search:
    """The result of one search."""

    target: str
    executions: str
    features: str
    covered: str
    found: str


def main() -> None:
    """Search one target after the other."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description="Hostile bytes for what reads bytes.")
    parser.add_argument("targets", nargs="*", metavar="TARGET", help=f"of {', '.join(REACHED)}; all if none is named")
    parser.add_argument("--seconds", type=int, default=300, help="for each target (300)")
    parser.add_argument("--sanitize", action="store_true", help="compiled modules under AddressSanitizer (needs gcc)")
    options = parser.parse_args()
    unknown = set(options.targets) - set(REACHED)
    if unknown:
        parser.error(f"There is no target {', '.join(sorted(unknown))}.")
    searches = []
    for name in options.targets or REACHED:
        searches.append((search_sanitized if options.sanitize else search)(name, options.seconds))
        print(row(searches[-1]), flush=True)
    if any(search.found for search in searches):
        sys.exit(
            "Findings: see each with `python -m tests.fuzz.replay TARGET FILE`, and keep its file in "
            "tests/fuzz/findings/TARGET/, where the tests run it."
        )


def row(search: Search) -> str:
    """One line of the report."""
    verdict = search.found or "no finding"
    return (
        f"{search.target:10} {search.executions:>9} executions  {search.features:>6} features  "
        f"{search.covered:>5} of its modules' lines  {verdict}"
    )


def search_sanitized(name: str, seconds: int) -> Search:
    """Search one target with AddressSanitizer, which reports no coverage."""
    executions, found = sanitizer.search(name, seconds, KEPT)
    return Search(name, executions, "-", "-", found)


def search(name: str, seconds: int) -> Search:
    """Search one target with atheris."""
    os.environ["AIOPROD_NO_EXT"] = "1"
    corpus, found = KEPT / "corpus" / name, KEPT / "findings" / name
    for folder in (corpus, found):
        folder.mkdir(parents=True, exist_ok=True)
    sow(name, corpus)
    before = set(found.iterdir())
    options = [
        f"-max_total_time={seconds}",
        f"-max_len={INPUT_SIZE_MAX}",
        f"-timeout={INPUT_TIMEOUT_S}",
        f"-artifact_prefix={found}/",
        f"-dict={Path(__file__).with_name('tokens.dict')}",
        "-print_final_stats=1",
        "-rss_limit_mb=1024",
    ]
    log = KEPT / f"{name}.log"
    with log.open("w") as output:
        ran = subprocess.run(
            [sys.executable, "-m", "tests.fuzz.search", name, *options, str(corpus)],
            stdout=output,
            stderr=output,
            check=False,
        )
    text = log.read_text(errors="replace")
    new = sorted(str(path) for path in set(found.iterdir()) - before)
    verdict = " ".join(new) or ("" if ran.returncode == 0 else f"failed: see {log}")
    features = re.findall(r"ft: (\d+)", text)
    executions = re.findall(r"number_of_executed_units: (\d+)", text)
    return Search(name, (executions or ["?"])[-1], (features or ["?"])[-1], covered(name, corpus), verdict)


def sow(name: str, corpus: Path) -> None:
    """Write the seeds and earlier findings into a corpus."""
    # Only now, when the build is chosen: compiled modules may be older than their sources.
    from tests.fuzz.targets import TARGETS

    for seed in TARGETS[name].seeds():
        if len(seed) <= INPUT_SIZE_MAX:
            (corpus / hashlib.sha1(seed, usedforsecurity=False).hexdigest()).write_bytes(seed)
    for path in (Path(__file__).parent / "findings" / name).glob("*"):
        (corpus / path.name).write_bytes(path.read_bytes())


def covered(name: str, corpus: Path) -> str:
    """The coverage of a target's modules by its corpus: lines and branches."""
    report = KEPT / "coverage.json"
    # slipcover warns that it can't measure the branches of tests with this pytest; a target has none.
    measured = [sys.executable, "-W", "ignore:Unable to activate pytest", "-m", "slipcover", "--out", str(report)]
    replay = [*measured, "-m", "tests.fuzz.replay", name, str(corpus)]
    if subprocess.run(replay, stdout=subprocess.DEVNULL, check=False).returncode:
        return "?"
    total = Covered()
    for path, file in json.loads(report.read_text())["files"].items():
        if any(fnmatch(path, pattern) for pattern in REACHED[name].split(",")):
            total += Covered.of(file["summary"])
    return f"{total.percent:.0f} %"


if __name__ == "__main__":
    main()

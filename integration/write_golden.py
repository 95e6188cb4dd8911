"""Write the golden files of the unit tests: messages and record batches as Kafka's own classes write them.

`python -m integration.write_golden` writes them, with `--check` it says whether they are what Kafka writes today.
"""

from __future__ import annotations

import json
import random
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from aioprod.messages.registry import REQUESTS
from aioprod.testing.kafka.jars import DEFAULT_VERSION
from aioprod.wire.schema import AnyRequest
from integration.support.java import JavaOracle
from integration.support.random_batches import CODECS, control_batch, empty_batch, random_batch, sent_batch
from tests.support.golden import GOLDEN

MESSAGES_PER_VERSION = 3
"""One sparse, one full, one in between: see `RandomStructs.java`."""

BATCHES_PER_CODEC = 4

Samples = list[dict[str, Any]]


def message_files(oracle: JavaOracle) -> Iterator[tuple[Path, Samples]]:
    """A file per API: request and response in each version."""
    for request in REQUESTS:
        rows = [*message_samples(oracle, request, "request"), *message_samples(oracle, request, "response")]
        yield GOLDEN / "messages" / f"{request.NAME}.json", rows


def message_samples(oracle: JavaOracle, request: type[AnyRequest], kind: str) -> Iterator[dict[str, Any]]:
    first, last = request.VERSIONS
    if str(last) not in oracle.call("schemas", api=request.API_KEY, kind=kind)["versions"]:
        sys.exit(
            f"Kafka {DEFAULT_VERSION} has no version {last} of {request.NAME}: "
            "set DEFAULT_VERSION in aioprod/testing/kafka/jars.py to a release that has it."
        )
    for version in range(first, last + 1):
        about = {"api": request.API_KEY, "kind": kind, "version": version}
        made = oracle.call("random_messages", **about, seed=version, big=False, count=MESSAGES_PER_VERSION)
        for row in made:
            if row["bytes_unknown_tags"] == row["bytes"] or row is made[-1]:
                del row["bytes_unknown_tags"]
            yield {"message": request.NAME + kind.title(), "version": version, **row}


def record_files(oracle: JavaOracle) -> Iterator[tuple[Path, Samples]]:
    """A file per codec, of batches as a producer sends them and as a broker stores them; and one of markers."""
    for codec in CODECS:
        source = random.Random(codec)
        sent = [[sent_batch(source, codec, big=False)] for _ in range(BATCHES_PER_CODEC)]
        stored = [[random_batch(source, codec, big=False) for _ in range(BATCHES_PER_CODEC)]]
        yield GOLDEN / "records" / f"{codec}.json", record_samples(oracle, sent=sent, stored=stored)
    source = random.Random("control")
    markers = [control_batch(source, marker) for marker in ("COMMIT", "ABORT")]
    yield GOLDEN / "records" / "control.json", record_samples(oracle, stored=[[*markers, empty_batch(source)]])


def record_samples(oracle: JavaOracle, **groups: Sequence[Sequence[dict[str, Any]]]) -> Samples:
    samples = []
    for how, group in groups.items():
        for batches in group:
            data = oracle.call("write_batches", batches=batches)
            samples.append({"how": how, "bytes": data, "batches": oracle.call("read_batches", bytes=data)})
    return samples


def content(samples: Samples) -> str:
    """A file's text: JSON with one sample a line, so that a change shows where it is."""
    lines = (json.dumps(sample, separators=(",", ":")) for sample in samples)
    return "[\n" + ",\n".join(lines) + "\n]\n"


def golden_files(oracle: JavaOracle) -> dict[Path, Samples]:
    """All files, with what they have to hold."""
    return dict([*message_files(oracle), *record_files(oracle)])


def stale_files(oracle: JavaOracle) -> list[Path]:
    """The files that are missing, do not hold what Kafka writes, or should not be there."""
    files = golden_files(oracle)
    stale = [path for path, samples in files.items() if not is_same(oracle, path, samples)]
    return stale + [path for path in GOLDEN.glob("*/*.json") if path not in files]


def is_same(oracle: JavaOracle, path: Path, samples: Samples) -> bool:
    """Whether `path` holds `samples`; gzip's bytes depend on the machine's zlib, so there it is what they say."""
    if not path.exists():
        return False
    if path.name != "gzip.json":
        return path.read_text() == content(samples)
    kept = json.loads(path.read_text())
    return [(row["how"], oracle.call("read_batches", bytes=row["bytes"])) for row in kept] == [
        (row["how"], row["batches"]) for row in samples
    ]


def main(arguments: Sequence[str]) -> int:
    with JavaOracle() as oracle:
        if list(arguments) == ["--check"]:
            stale = stale_files(oracle)
            for path in stale:
                print(f"{path.relative_to(GOLDEN)} is not what Kafka writes: run `python -m integration.write_golden`.")
            return 1 if stale else 0
        files = golden_files(oracle)
    for path, samples in files.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content(samples))
    print(f"{sum(map(len, files.values()))} samples in {len(files)} files")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

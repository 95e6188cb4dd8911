"""Everything that programs write into the tree: `make generate` makes it again, `make lint` and a test compare.

`python -m tools.generate` writes what is out of date, `--check` only names it, and has status 1 if there is any.
"""

from __future__ import annotations

import difflib
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import Final, NamedTuple

from aioprod.cli.pages import page as commands_page
from aioprod.config._page import reference_page
from benchmarks import report as benchmarks_report
from integration.brokers import report as brokers_report
from tests.scale import page as scale_page
from tools import metrics_page, settings_tables, state_diagrams
from tools.documentation import api_versions, librdkafka
from tools.documentation.links import ROOT
from tools.documentation.pictures import PICTURES
from tools.typed_options import module_text

__all__ = ["GENERATED", "Generated", "out_of_date"]


class Generated(NamedTuple):
    """What one generator makes."""

    made_from: str
    """Where to change it."""
    files: tuple[str, ...]
    """Paths within the tree."""
    make: Callable[[str, str], str]
    """From the name of a file and its text, what the text has to be. A table's generator replaces the table only."""

    def changed(self) -> Iterator[tuple[str, str, str]]:
        """Of each file that is out of date: its path, its text, and what the text has to be."""
        for file in self.files:
            path = ROOT / file
            text = path.read_text(encoding="utf-8") if path.exists() else ""
            made = self.make(path.name, text)
            if made != text:
                yield file, text, made


GENERATED: Final = {
    "configuration": Generated("aioprod/config/", ("docs/configuration.md",), lambda name, text: reference_page()),
    "options": Generated("aioprod/config/", ("aioprod/options.py",), lambda name, text: module_text()),
    "commands": Generated("the parsers in aioprod/cli/", ("docs/cli.md",), lambda name, text: commands_page()),
    "settings": Generated(
        "the class that the table's marker names",
        ("docs/admin.md", "docs/groups.md", "docs/reader.md", "docs/schema-registry.md"),
        lambda name, text: settings_tables.filled(text),
    ),
    "metrics": Generated(
        "the class that the table's marker names", ("docs/metrics.md",), lambda name, text: metrics_page.filled(text)
    ),
    "states": Generated(
        "the module that the diagram's marker names",
        ("docs/groups.md", "docs/transactions.md"),
        lambda name, text: state_diagrams.filled(text),
    ),
    "apis": Generated("aioprod/messages/", ("docs/kips.md",), lambda name, text: api_versions.filled(text)),
    "librdkafka": Generated(
        "tools/documentation/librdkafka.py",
        ("docs/migrating-confluent-kafka.md",),
        lambda name, text: librdkafka.filled(text),
    ),
    "pictures": Generated(
        "tools/documentation/pictures/",
        tuple(f"docs/images/{name}" for name in PICTURES),
        lambda name, text: PICTURES[name]().svg(),
    ),
    "benchmarks": Generated(
        "benchmarks/results/results.json", ("README.md", "docs/performance.md"), benchmarks_report.with_kept
    ),
    "numbers": Generated(
        "benchmarks/results/results.json",
        ("benchmarks/results/results.md",),
        lambda name, text: benchmarks_report.kept_numbers(),
    ),
    "scale": Generated("tests/scale/results.json", ("docs/scale.md",), lambda name, text: scale_page.with_kept(text)),
    "brokers": Generated(
        "integration/brokers/results/",
        ("docs/brokers.md",),
        lambda name, text: brokers_report.page(text, brokers_report.kept()),
    ),
}
"""By name. The last four are tables of figures that were measured: other figures need another measurement."""


def out_of_date(name: str) -> Iterator[str]:
    """A sentence for each file of a generator that is out of date, and the lines that differ."""
    generated = GENERATED[name]
    for file, text, made in generated.changed():
        lines = difflib.unified_diff(text.splitlines(), made.splitlines(), file, "generated", lineterm="", n=0)
        difference = "\n".join(lines)
        yield f"{file} is out of date: it is made from {generated.made_from}; run: make generate\n{difference}"


def _write() -> None:
    for generated in GENERATED.values():
        for file, _, made in generated.changed():
            (ROOT / file).write_text(made, encoding="utf-8")
            print(f"{file} is written.")


def main(arguments: Sequence[str]) -> int:
    """Write, or with `--check` compare."""
    if arguments != ["--check"]:
        _write()
        return 0
    found = [sentence for name in GENERATED for sentence in out_of_date(name)]
    print("\n".join(found), end="\n" if found else "")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

"""The results as text: sections of the README and of docs/performance.md, the table of targets, and all numbers.

`python -m benchmarks.report` writes them and the plot again, from the existing results."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks.rows import ROWS, Check, Row
from benchmarks.verdicts import Outcome, medians, outcome, runs_of

__all__ = [
    "HEADLINES",
    "RESULTS",
    "ahead",
    "headlines",
    "kept_numbers",
    "main",
    "page_section",
    "readme_section",
    "target_tables",
    "with_kept",
    "with_section",
    "write",
    "write_spark",
]

RESULTS = Path(__file__).parent / "results"
SPARK = RESULTS / "spark.json"
README = Path(__file__).parent.parent / "README.md"
PAGE = README.parent / "docs" / "performance.md"
BEGIN = "<!-- benchmarks: made by `python -m benchmarks.report` -->"
END = "<!-- benchmarks end -->"

HEADLINES = ("nowait-16k", "submit-gather", "tasks", "send-many", "idle")
"""The rows in the README, by their first check: the CPU time of a record, beside a peer."""

PEERS = ("aioprod", "aiokafka", "confluent-kafka")
"""Whose versions the README names."""

METRICS = {
    "cpu_us": ("CPU per {}", "us", 2),
    "p50_us": ("p50", "us", 0),
    "p99_us": ("p99", "us", 0),
    "gap_ms": ("gap", "ms", 1),
    "peak_mb": ("peak", "MB", 0),
}
"""The title, with a place for what a record is called, unit and decimals of the metrics with targets."""


def headlines(results: Mapping[str, Any]) -> list[str]:
    """Return lines of Markdown that compare aioprod and its peer in a few rows, on the first broker."""
    broker = next(iter(results["brokers"]))
    lines = [
        _line(["call", "compared with", "aioprod", "the other", "ratio"]),
        _line(["---"] * 2 + ["---:"] * 3),
    ]
    for row in map(ROWS.__getitem__, HEADLINES):
        check = row.checks[0]
        found = outcome(check, runs_of(results, broker, row.name))
        if found is not None and found.theirs is not None:
            _, unit, decimals = METRICS[check.metric]
            sides = [f"{side:,.{decimals}f} {unit}" for side in (found.ours, found.theirs)]
            lines.append(_line([*row.words(check), *sides, f"{found.value:.1f}x"]))
    return lines


def ahead(results: Mapping[str, Any]) -> list[str]:
    """Return lines that say where a peer takes less than aioprod by the medians, or that it does nowhere; and what was
    not measured."""
    lines, compared = _behind(results)
    missing = [
        f"Not measured on {results['brokers'][entry['broker']]}: {entry['contender']}, as {entry['missing']}."
        for entry in results["entries"]
        if "missing" in entry
    ]
    head = f"{_count(lines, compared)}{':' if lines else '.'}"
    return [head, *([""] if lines else []), *lines, *(["", *dict.fromkeys(missing)] if missing else [])]


def _behind(results: Mapping[str, Any]) -> tuple[list[str], int]:
    """Return a line for each comparison in which a peer takes less, and the number of comparisons. Rows that compare
    aioprod with itself don't count."""
    lines, compared = [], 0
    for row in ROWS.values():
        for check in filter(row.is_beside_a_peer, row.checks):
            outcomes = {
                title: outcome(check, runs_of(results, name, row.name)) for name, title in results["brokers"].items()
            }
            found = {title: one for title, one in outcomes.items() if one is not None}
            compared += bool(found)
            sides = [f"{_sides(check, one)} on {title}" for title, one in found.items() if one.is_behind]
            if sides:
                what, against = row.words(check)
                lines.append(f"- {what}, beside {against}: {', '.join(sides)}; target: {_target(row, check)}")
    return lines, compared


def _count(lines: Sequence[str], compared: int) -> str:
    return f"A peer is ahead in {len(lines) or 'none'} of {compared} comparisons"


def target_tables(results: Mapping[str, Any]) -> list[str]:
    """Return lines of Markdown: a line per target, a column per broker; rows of other brokers have a table of their
    own."""
    places: dict[tuple[str, ...], list[Row]] = {}
    for row in ROWS.values():
        measured = {entry["broker"] for entry in results["entries"] if entry["row"] == row.name}
        if measured:
            places.setdefault(tuple(name for name in results["brokers"] if name in measured), []).append(row)
    tables = [_target_table(results, brokers, rows) for brokers, rows in places.items()]
    return [line for table in tables for line in (*table, "")][:-1]


def _target_table(results: Mapping[str, Any], brokers: Sequence[str], rows: Iterable[Row]) -> list[str]:
    head = ["call style", "against", "target", *map(results["brokers"].__getitem__, brokers)]
    lines = [_line(head), _line(["---"] * len(head))]
    for row in rows:
        for check in row.checks:
            outcomes = [outcome(check, runs_of(results, broker, row.name)) for broker in brokers]
            lines.append(_line([*row.words(check), _target(row, check), *(_cell(check, found) for found in outcomes)]))
    return lines


def _target(row: Row, check: Check) -> str:
    words, unit, _ = METRICS[check.metric]
    words = words.format(row.unit)
    if check.kind == "limit":
        return f"{words} <= {check.bound:g} {unit}"
    if check.kind == "within":
        return f"{words} within {check.bound:g}x"
    return f"{words} no worse" if check.bound == 1 else f"{words} {check.bound:g}x less"


def _cell(check: Check, found: Outcome | None) -> str:
    """Return both values, the ratio of the medians, in brackets that of the lowest runs, and the verdict."""
    if found is None:
        return "not measured"
    _, unit, decimals = METRICS[check.metric]
    verdict = "yes" if found.reached else "**no**"
    if found.theirs is None:
        return f"{found.ours:,.{decimals}f} {unit} ({found.lowest:,.{decimals}f}): {verdict}"
    return f"{_sides(check, found)}, **{found.value:.3g}x** ({found.lowest:.3g}x): {verdict}"


def _sides(check: Check, found: Outcome) -> str:
    _, unit, decimals = METRICS[check.metric]
    return f"{found.ours:,.{decimals}f} / {found.theirs:,.{decimals}f} {unit}"


def all_numbers(results: Mapping[str, Any]) -> list[str]:
    """Return lines of Markdown: the targets, and every contender of every row, with its settings."""
    legend = (
        "Each cell: aioprod / other client, then how many times less aioprod needs (by medians; in brackets, by each "
        "one's best run), then whether our own target was met."
    )
    lines = [
        "# Benchmark results",
        "",
        *ahead(results),
        "",
        *_absent(results),
        *_circumstances(results),
        "",
        "## Targets",
        "",
        *target_tables(results),
        "",
        legend,
    ]
    lines.append("")
    for broker, title in results["brokers"].items():
        lines += [f"## {title}", ""]
        for row in ROWS.values():
            entries = [e for e in results["entries"] if e["broker"] == broker and e["row"] == row.name]
            if entries:
                lines += [*_row_section(row, entries), ""]
    return lines[:-1]


def _absent(results: Mapping[str, Any]) -> list[str]:
    """Return a line that names the rows of which there are no figures at all; empty without any."""
    measured = {entry["row"] for entry in results["entries"]}
    names = [name for name in ROWS if name not in measured]
    return [f"Rows that were not measured: {', '.join(names)}.", ""] if names else []


def _row_section(row: Row, entries: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return a row's contenders: medians, with the range of the CPU time in brackets."""
    head = [
        "contender",
        f"CPU us/{row.unit}",
        f"{row.unit}s/s",
        "p50 ms",
        "p99 ms",
        "loop gap ms",
        "peak MB",
        "growth MB",
    ]
    lines = [f"### {row.name}: {row.title}", "", _line(head), _line(["---"] * len(head))]
    for entry in entries:
        if not entry["runs"]:
            why = f"not measured: {entry['missing']}" if "missing" in entry else entry["failure"].splitlines()[-1]
            why = why if "missing" in entry else f"failed: {why}"
            lines.append(_line([entry["contender"], why, *[""] * 6]))
            continue
        found = medians(entry["runs"])
        cpu = [run["cpu_us"] for run in entry["runs"]]
        cells = [f"{found['cpu_us']:.3f} [{min(cpu):.3f}..{max(cpu):.3f}]", f"{found['records_per_s']:,.0f}"]
        cells += [f"{found[name] / 1000:.2f}" if name in found else "" for name in ("p50_us", "p99_us")]
        cells.append(f"{found['gap_ms']:.1f}" if "gap_ms" in found else "")
        cells += [f"{found[name]:.0f}" if name in found else "" for name in ("peak_mb", "growth_mb")]
        lines.append(_line([entry["contender"], *cells]))
    lines.append("")
    lines += [
        f"- {entry['contender']}: {entry['runs'][0]['records']:,} records, {_settings(entry['settings'])}"
        for entry in entries
        if entry["runs"]
    ]
    return lines


def _settings(settings: Mapping[str, Any]) -> str:
    return ", ".join(f"{name}={value}" for name, value in settings.items())


def _circumstances(results: Mapping[str, Any]) -> list[str]:
    place = results["environment"]
    named = ", ".join(f"{name} {version}" for name, version in _versions(results).items())
    text = (
        f"{results['runs']} interleaved runs on {place['date']} at commit {place['commit']}; {place['machine']}, "
        f"{place['system']}, load {place['load']} before the run; Python {place['python']}, {named}."
    )
    return [text]


def _versions(results: Mapping[str, Any]) -> dict[str, str]:
    versions = dict(results["environment"]["versions"])
    for entry in results["entries"]:
        versions |= entry.get("versions", {})
    return versions


def readme_section(results: Mapping[str, Any]) -> list[str]:
    """Return the README's section between its two markers: a few rows, one line on how they were measured, and one on
    where peers are ahead."""
    place, versions = results["environment"], _versions(results)
    named = ", ".join(f"{name} {versions[name]}" for name in PEERS if name in versions)
    lines, compared = _behind(results)
    where = ": [where](docs/performance.md#where-a-peer-is-ahead)" if lines else ""
    measured = f"Medians of {results['runs']} runs on {place['date']}: {next(iter(results['brokers'].values()))}"
    return [
        *headlines(results),
        "",
        f"{measured}, {place['machine']}, Python {place['python']}, {named}.",
        f"{_count(lines, compared)}{where}.",
    ]


def page_section(results: Mapping[str, Any]) -> list[str]:
    """Return the section of docs/performance.md between its two markers: the README's rows, how they were measured,
    and every comparison in which a peer is ahead."""
    return [
        *headlines(results),
        "",
        f"{next(iter(results['brokers'].values()))}, medians. " + "".join(_circumstances(results)),
        "",
        "## Where a peer is ahead",
        "",
        *ahead(results),
    ]


def with_section(text: str, section: Iterable[str]) -> str:
    """Return `text` with these lines between the two markers; raises ValueError if it has no markers."""
    before, begin, rest = text.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise ValueError(f"The text lacks the lines {BEGIN} and {END}.")
    return before + "\n".join([BEGIN, *section, END]) + after


def write(results: Mapping[str, Any]) -> None:
    """Write the results, the tables, the plot, and the sections of the README and of docs/performance.md."""
    from benchmarks.plot import plot  # takes a second to import, which measuring alone does not need

    RESULTS.mkdir(exist_ok=True)
    (RESULTS / "results.json").write_text(_json(results))
    plot(results, RESULTS / "results.png")
    (RESULTS / "results.md").write_text(kept_numbers())
    for page in (README, PAGE):
        page.write_text(with_kept(page.name, page.read_text()))


def kept_numbers() -> str:
    """Return the page of all numbers, of the results that are kept."""
    return "\n".join(all_numbers(_kept())) + "\n"


def with_kept(name: str, text: str) -> str:
    """Return the README, or docs/performance.md, with the kept figures; raises ValueError without a place for them."""
    section = readme_section if name == README.name else page_section
    return with_section(text, section(_kept()))


def _kept() -> Mapping[str, Any]:
    return with_spark(json.loads((RESULTS / "results.json").read_text()))


def write_spark(spark: Mapping[str, Any]) -> None:
    """Write the results of Spark, and everything that has them."""
    SPARK.write_text(_json(spark))
    main()


def with_spark(results: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the results with those of `make bench-spark ARGS=--write` beside them, where there are some."""
    if not SPARK.exists():
        return results
    spark = json.loads(SPARK.read_text())
    entries = [*results["entries"], *spark["entries"]]
    return {**results, "brokers": results["brokers"] | spark["brokers"], "entries": entries}


def _json(results: Mapping[str, Any]) -> str:
    """Return one line per contender, so that results can be compared line by line."""
    entries = ",\n".join(json.dumps(entry) for entry in results["entries"])
    head = json.dumps({name: value for name, value in results.items() if name != "entries"}, indent=1)
    return f'{head[:-2]},\n "entries": [\n{entries}\n]}}\n'


def _line(cells: Iterable[str]) -> str:
    return f"| {' | '.join(cells)} |"


def main() -> int:
    """Write everything again from the results file."""
    write(json.loads((RESULTS / "results.json").read_text()))
    return 0


if __name__ == "__main__":
    sys.exit(main())

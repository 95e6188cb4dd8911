"""The results as text: rows for the README, the table of targets, and all numbers.

`python -m benchmarks.report` writes them and the plot again, from the existing results."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks.rows import ROWS, Check, Row
from benchmarks.verdicts import Outcome, medians, outcome, runs_of

__all__ = ["HEADLINES", "RESULTS", "headlines", "main", "target_table", "with_section", "write"]

RESULTS = Path(__file__).parent / "results"
README = Path(__file__).parent.parent / "README.md"
BEGIN = "<!-- benchmarks: made by `python -m benchmarks.report` -->"
END = "<!-- benchmarks end -->"

HEADLINES = ("nowait-16k", "submit-gather", "tasks", "send-many", "idle")
"""The rows in the README, by their first check."""

METRICS = {
    "cpu_us": ("CPU per record", "us", 2),
    "p50_us": ("p50", "us", 0),
    "p99_us": ("p99", "us", 0),
    "gap_ms": ("gap", "ms", 1),
    "peak_mb": ("peak", "MB", 0),
}
"""The title, unit and decimals of the metrics with targets."""


def headlines(results: Mapping[str, Any]) -> list[str]:
    """Return lines of Markdown that compare aioprod and its peer in a few rows, on the first broker."""
    broker = next(iter(results["brokers"]))
    lines = [
        _line(["call", "beside", "measured", "aioprod", "the other", "less by"]),
        _line(["---"] * 3 + ["---:"] * 3),
    ]
    for row in map(ROWS.__getitem__, HEADLINES):
        check = row.checks[0]
        found = outcome(check, runs_of(results, broker, row.name))
        if found is not None and found.theirs is not None:
            words, unit, decimals = METRICS[check.metric]
            sides = [f"{side:,.{decimals}f} {unit}" for side in (found.ours, found.theirs)]
            lines.append(_line([row.title, row.against, words, *sides, f"**{found.value:.1f}x**"]))
    return lines


def behind(results: Mapping[str, Any]) -> list[str]:
    """Return a sentence with the rows in which the other client took less on the first broker; empty without any."""
    broker = next(iter(results["brokers"]))
    named = []
    for row in ROWS.values():
        check = row.checks[0]
        found = outcome(check, runs_of(results, broker, row.name)) if check.kind == "times" else None
        if found is not None and found.value < 1:
            named.append(f"{row.title} ({row.against}: {found.value:.2g} of aioprod's)")
    return [f"The other client took less in: {'; '.join(named)}.", ""] if named else []


def target_table(results: Mapping[str, Any]) -> list[str]:
    """Return lines of Markdown: a line per target, a column per broker."""
    brokers: dict[str, str] = results["brokers"]
    lines = [_line(["call style", "against", "target", *brokers.values()]), _line(["---"] * (3 + len(brokers)))]
    measured = {entry["row"] for entry in results["entries"]}
    for row in ROWS.values():
        for check in row.checks if row.name in measured else ():
            outcomes = [outcome(check, runs_of(results, broker, row.name)) for broker in brokers]
            cells = [_cell(check, found) for found in outcomes]
            lines.append(_line([row.title, row.against, _target(check), *cells]))
    return lines


def _target(check: Check) -> str:
    words, unit, _ = METRICS[check.metric]
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
    sides = f"{found.ours:,.{decimals}f} / {found.theirs:,.{decimals}f} {unit}"
    return f"{sides}, **{found.value:.3g}x** ({found.lowest:.3g}x): {verdict}"


def all_numbers(results: Mapping[str, Any]) -> list[str]:
    """Return lines of Markdown: the targets, and every contender of every row, with its settings."""
    legend = (
        "Each cell: aioprod / other client, then how many times less aioprod needs (by medians; in brackets, by each "
        "one's best run), then whether our own target was met."
    )
    lines = [
        "# Benchmark results",
        "",
        *_circumstances(results),
        "",
        "## Targets",
        "",
        *target_table(results),
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


def _row_section(row: Row, entries: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return a row's contenders: medians, with the range of the CPU time in brackets."""
    head = ["contender", "CPU us/record", "records/s", "p50 ms", "p99 ms", "loop gap ms", "peak MB", "growth MB"]
    lines = [f"### {row.name}: {row.title}", "", _line(head), _line(["---"] * len(head))]
    for entry in entries:
        if not entry["runs"]:
            lines.append(_line([entry["contender"], f"failed: {entry['failure'].splitlines()[-1]}", *[""] * 6]))
            continue
        found = medians(entry["runs"])
        cpu = [run["cpu_us"] for run in entry["runs"]]
        cells = [f"{found['cpu_us']:.3f} [{min(cpu):.3f}..{max(cpu):.3f}]", f"{found['records_per_s']:,.0f}"]
        cells += [f"{found[name] / 1000:.2f}" if name in found else "" for name in ("p50_us", "p99_us")]
        cells.append(f"{found['gap_ms']:.1f}" if "gap_ms" in found else "")
        cells += [f"{found['peak_mb']:.0f}", f"{found['growth_mb']:.0f}"]
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
    versions = dict(place["versions"])
    for entry in results["entries"]:
        versions |= entry.get("versions", {})
    named = ", ".join(f"{name} {version}" for name, version in versions.items())
    text = (
        f"{results['runs']} interleaved runs on {place['date']} at commit {place['commit']}; {place['machine']}, "
        f"{place['system']}, load {place['load']} before the run; Python {place['python']}, {named}."
    )
    return [text]


def readme_section(results: Mapping[str, Any]) -> list[str]:
    """Return the README's section between its two markers."""
    return [
        *headlines(results),
        "",
        *behind(results),
        f"{next(iter(results['brokers'].values()))}, medians. " + "".join(_circumstances(results)),
        "",
        "![CPU time per record](benchmarks/results/results.png)",
    ]


def with_section(text: str, section: Iterable[str]) -> str:
    """Return `text` with these lines between the two markers; raises ValueError if it has no markers."""
    before, begin, rest = text.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise ValueError(f"The text lacks the lines {BEGIN} and {END}.")
    return before + "\n".join([BEGIN, *section, END]) + after


def write(results: Mapping[str, Any]) -> None:
    """Write the results, the tables, the plot, and the README's section."""
    from benchmarks.plot import plot  # takes a second to import, which measuring alone does not need

    RESULTS.mkdir(exist_ok=True)
    (RESULTS / "results.json").write_text(_json(results))
    (RESULTS / "results.md").write_text("\n".join(all_numbers(results)) + "\n")
    plot(results, RESULTS / "results.png")
    README.write_text(with_section(README.read_text(), readme_section(results)))


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

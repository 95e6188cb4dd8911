"""The figures as text. `python -m integration.group.report` writes results/results.md from the stored results."""

from __future__ import annotations

import json
import statistics
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from integration.group.plan import STRATEGIES
from integration.group.run import HEARTBEAT_INTERVAL_MS, SESSION_TIMEOUT_MS

__all__ = ["RESULTS", "evidence", "keep", "main", "page", "tables", "write"]

RESULTS: Final = Path(__file__).parent / "results"
PAGE: Final = RESULTS / "results.md"

Figures = Mapping[str, Any]

_EVENTS: Final = {
    "first join": "the first joins",
    "join": "one joins",
    "leave": "one leaves",
    "crash": "one is killed",
    "several at once": "several at once",
}


def tables(results: Sequence[Figures]) -> list[str]:
    """Lines of Markdown: what was done and found, and how long rebalances took."""
    done = [["strategy", "Kafka", "joins, leaves, kills", "generations led by", "records", "again", "flaws"]]
    took = [["strategy", "Kafka", *_EVENTS.values()]]
    for found in results:
        events = ", ".join(str(found["events"][what]) for what in ("join", "leave", "crash"))
        led = ", ".join(f"{kind} {count}" for kind, count in found["led"].items()) or "-"
        of = [found["strategy"], found["kafka"]]
        done.append([*of, events, led, f"{found['sent']:,}", f"{found['again']:,}", str(sum(found["flaws"].values()))])
        took.append([*of, *(_times(found["took_s"].get(name, ())) for name in _EVENTS)])
    return [*_markdown(done), "", *_markdown(took)]


def _markdown(rows: list[list[str]]) -> list[str]:
    header, *others = rows
    alignment = ["---", *("---:" for _ in header[1:])]
    return [f"| {' | '.join(row)} |" for row in (header, alignment, *others)]


def _times(took_s: Sequence[float]) -> str:
    return f"{statistics.median(took_s):.2f}, {max(took_s):.2f} ({len(took_s)})" if took_s else "-"


def evidence(found: Figures) -> list[str]:
    """Examples of each flaw of one run."""
    return [f"  {name}: {example}" for name, examples in found["examples"].items() for example in examples]


def keep(found: Figures) -> None:
    """Write the figures of a run; a later run of the same takes their place."""
    RESULTS.mkdir(exist_ok=True)
    name = f"{found['strategy']}-{found['kafka']}.json".replace(" ", "-")
    (RESULTS / name).write_text(json.dumps(found, indent=1) + "\n")


def write() -> None:
    """Make the page of all that is kept."""
    kept = [json.loads(path.read_text()) for path in sorted(RESULTS.glob("*.json"))]
    kept.sort(key=lambda found: (list(STRATEGIES).index(found["strategy"]), found["kafka"]))
    PAGE.write_text("\n".join(page(kept)) + "\n")


def page(kept: Sequence[Figures]) -> list[str]:
    """Lines of Markdown."""
    return [*_INTRODUCTION, "", *tables(kept), "", *(_circumstances(found) for found in kept)]


_INTRODUCTION: Final = (
    "# Mixed groups on real brokers",
    "",
    "Made by `make groups WRITE=1`.",
    "",
    "A group of up to five members of aioprod, Java's consumer and confluent-kafka reads two topics with 11 partitions",
    "from one real broker, while a producer sends 275 numbered records a second. Members join, leave and are killed",
    "(SIGKILL), a quarter of the times before the group has settled after the last such event; each kind in turn",
    "founds the group, and so leads it. With `defaults` each kind offers what it offers by default: the group changes",
    "between `range` and `cooperative-sticky` as confluent-kafka's members, who have `range` only, come and go; with",
    "`changing` Java's have `range` only, too. confluent-kafka has no `sticky`. With `brokers assign` (KIP-848) nobody",
    "leads, and a generation is a member's epoch. With `transactions` all members are aioprod's, and write what they",
    "read to other topics, with their offsets in the same transaction, of which each tenth is aborted on purpose:",
    "readers of committed records have to see each record once.",
    "",
    "A flaw is a record that was not handled, or handled by two members in one generation, out of order or by one who",
    "had not been assigned its partition; an offset committed before what is below it was handled; a partition with",
    "two owners in one generation; members that have not what their leader assigned; records that the group has not",
    "committed in the end. *Again*: handled before by one that was killed before it had committed, or had lost its",
    "partitions, or had aborted its transaction.",
    "",
    "The second table has the seconds from an event until the last member was told what is its own and every",
    "partition had an owner: median, maximum and how many. For who joins it begins when its consumer begins to join,",
    "for several at once with the last of these events; for who is killed it has the session timeout of",
    f"{SESSION_TIMEOUT_MS / 1e3:g} s in it. Members hear of a rebalance by their next heartbeat, every",
    f"{HEARTBEAT_INTERVAL_MS / 1e3:g} s here. A busy machine (see the load) shows in the maxima.",
)


def _circumstances(found: Figures) -> str:
    place = found["environment"]
    return (
        f"- {found['strategy']}, {found['kafka']}: seed {found['seed']}, {found['minutes']:.1f} minutes on "
        f"{place['date']}, commit {place['commit']}, load {place['load']} on {place['machine']}."
    )


def main() -> int:
    """Make the page anew."""
    write()
    return 0


if __name__ == "__main__":
    sys.exit(main())

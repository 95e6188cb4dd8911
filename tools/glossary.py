"""Finds words that this project once used in a sense of its own, in place of the field's words.

`python -m tools.glossary [PATH ...]` prints each place with the word to use, and a count for each room; the
status is 1 when it finds any. Names are read as words: `ask_leader` and `AskLeader` hold "ask". docs/design.md has the
glossary of the few words that stay ours.
"""

from __future__ import annotations

import re
import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final, NamedTuple

__all__ = ["Finding", "findings", "main"]

WORDS: Final[Mapping[str, str]] = {
    r"tells?|told|telling": "complete (a future), notify, report, log, run callbacks",
    r"ask|asks|asked|asking": "request, fetch, look up, call",
    r"who|whoever|whom": "the caller, the waiter, the member, a client that ...",
    r"somebody|nobody|anybody|everybody": "a caller, no caller, another member, every waiter",
    r"anew": "again, re-join, re-encode",
    r"(?:go|goes|going|went|gone) on": "continue, resume, retry",
    r"refus\w*": "raise, reject (what a broker does), invalid; 'refused' is ECONNREFUSED only",
    r"troubles?": "last_error, cause",
    r"standing": "the transaction's status",
    r"divi(?:de|des|ded|ding|sions?)": "split (a batch), assign (partitions)",
    r"(?:give|gives|gave|given|giving) up": "revoke (a partition), fail (a batch), abort (a connection)",
    r"good-?bye|farewell|parting": "LeaveGroup, leaving",
    r"holding": "assignment state",
    r"lanes?": "task",
    r"at hand": "polling, available",
    r"(?:un)?settle\w*": "complete, done",
    r"holes?": "sequence gap",
    r"anchored": "the epoch is established",
    r"adopt\w*": "set (the producer id and epoch)",
    r"hurry|hurried|press": "flush, closing",
    r"barred": "not in a transaction",
    r"era": "transaction number",
    r"journal": "event log",
    r"pieces?": "chunk, part",
    r"legs?": "build (compiled or pure Python)",
    r"blobs?": "bytes of a subscription or assignment",
    r"hears?|heard": "is notified, receives",
    r"yielding": "revoking all",
}
"""A word, or several, and what to write instead."""

ALLOWED: Final = re.compile(
    r"connection ?refused|econnrefused|black[ _]hole|\"refused?\"|`refuse`|self\.refuse\b|Policy\.REFUSE|REFUSE = "
    r"|\"nobody\"|journal_mode|(?:key|value|headers) (?:AS )?BLOB",
    re.IGNORECASE,
)
"""Phrases of the field that hold one of the words."""

_FIND: Final = [(re.compile(rf"(?<![\w-])(?:{word})(?![\w-])", re.IGNORECASE), use) for word, use in WORDS.items()]
_SUFFIXES: Final = (".py", ".pxd")


class Finding(NamedTuple):
    """A file, a line's number, the word in it, and what to write instead."""

    file: Path
    line: int
    word: str
    use: str


def as_words(line: str) -> str:
    """The line with its names taken apart: `askLeader` and `ask_leader` become "ask leader"."""
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", " ", ALLOWED.sub("", line)).replace("_", " ")


def findings(paths: Sequence[Path]) -> Iterator[Finding]:
    """Every place in these files and folders."""
    for path in paths:
        for file in sorted(path.rglob("*")) if path.is_dir() else [path]:
            if file.suffix not in _SUFFIXES:
                continue
            for number, line in enumerate(file.read_text().splitlines(), 1):
                words = as_words(line)
                for pattern, use in _FIND:
                    for found in pattern.findall(words):
                        yield Finding(file, number, found, use)


def main(arguments: Sequence[str]) -> int:
    """Print what there is in the paths given, by default the package."""
    rooms: Counter[str] = Counter()
    for file, number, word, use in findings([Path(argument) for argument in arguments or ["aioprod"]]):
        print(f"{file}:{number}: {word!r}: {use}")
        rooms["/".join(file.parts[:2])] += 1
    for room, count in rooms.most_common():
        print(f"{count:>6}  {room}")
    return 1 if rooms else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

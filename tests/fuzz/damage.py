"""One target over seeds that are damaged at random: `python -m tests.fuzz.damage NAME SECONDS FILE [CORPUS]`.

FILE holds the input in work, for a process that does not survive it.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path
from random import Random
from typing import Final

from aioprod._build import COMPILED
from tests.fuzz.targets import TARGETS

NUMBERS: Final = [0, 1, 2, 0x7F, 0x80, 0xFF, 0x7FFF, 0x8000, 0xFFFF, 0x7FFF_FFFF, 0x8000_0000, 0xFFFF_FFFF]
REPORT_EVERY: Final = 10_000


def damaged(random: Random, seeds: list[bytes]) -> bytes:
    """A seed with some bytes changed, left out, or put in."""
    data = bytearray(random.choice(seeds))
    for _ in range(random.randint(1, 6)):
        at = random.randint(0, len(data))
        size = random.randint(1, 8)
        match random.randrange(5):
            case 0:
                data[at : at + 1] = random.randbytes(1)
            case 1:
                data[at : at + size] = b""
            case 2:
                data[at:at] = random.randbytes(size)
            case 3:
                data[at : at + 4] = random.choice(NUMBERS).to_bytes(4, random.choice(("big", "little")))
            case 4:
                data += random.randbytes(8)
    return bytes(data)


def main(name: str, seconds: str, given: str, *corpus: str) -> None:
    """Run the target until the time is over, or something is found."""
    assert COMPILED, "The interpreted modules can't read out of bounds."
    target = TARGETS[name]
    seeds = [*target.seeds(), *(path.read_bytes() for folder in corpus for path in Path(folder).iterdir())]
    random = Random()
    end = time.monotonic() + float(seconds)
    count = accepted = 0
    with Path(given).open("wb", buffering=0) as file:
        while time.monotonic() < end:
            data = seeds[count] if count < len(seeds) else damaged(random, seeds)
            file.seek(0)
            file.truncate()
            file.write(data)
            accepted += target.check(data)
            count += 1
            if count % REPORT_EVERY == 0:
                print(f"{count} inputs, {accepted} read without an error.", flush=True)
    print(f"{count} inputs, {accepted} read without an error.")


if __name__ == "__main__":
    main(*sys.argv[1:])

"""Every block of `docs/routing.md` runs as it stands, without a broker, and prints what the page says."""

from __future__ import annotations

import asyncio
import re
from itertools import product
from typing import Any

import pytest

from aioprod.routing import HASH_PARTITIONERS
from aioprod.routing.hashes import crc32_partition, fnv1a, fnv1a_partition, murmur2_partition
from tests.support.snippets import ROOT, snippets

PAGE = ROOT / "docs" / "routing.md"
OUTPUT = re.compile(r"```\n\n```text\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def outputs() -> list[str]:
    """What stands below the blocks, in order."""
    return OUTPUT.findall(PAGE.read_text())


def test_every_block_has_its_output() -> None:
    found = snippets(PAGE)
    assert len(found) == PAGE.read_text().count("```python") == len(outputs()) > 5
    assert all(snippet.runnable for snippet in found)


def test_the_blocks_print_what_the_page_says(capsys: pytest.CaptureFixture[str]) -> None:
    namespace: dict[str, Any] = {"__name__": "snippet"}
    printed = []
    with asyncio.Runner() as runner:
        for snippet in snippets(PAGE):
            snippet.run(runner, namespace)
            printed.append(capsys.readouterr().out)
    assert printed == outputs()


def test_the_page_names_every_partitioner_that_hashes() -> None:
    named = set(re.findall(r'`"([a-z0-9_]+)"`', PAGE.read_text()))
    assert set(HASH_PARTITIONERS) <= named
    assert named - set(HASH_PARTITIONERS) == {"sticky", "round_robin"}


def test_the_shares_in_the_text() -> None:
    text = PAGE.read_text()
    keys = [b"account %d" % number for number in range(20_000)]

    draws = list(product(range(3), repeat=3))
    assert sum(len(set(draw)) == 3 for draw in draws) * 9 == 2 * len(draws)
    assert "in only 2 of 9 cases" in text

    elsewhere = sum(fnv1a_partition(key, 12) != (fnv1a(key) & 0x7FFFFFFF) % 12 for key in keys)
    assert elsewhere / len(keys) == pytest.approx(5 / 12, abs=0.02)
    assert "with 12 partitions, 5 in 12 keys go to a different partition" in text

    elsewhere = sum(murmur2_partition(key, 12) != crc32_partition(key, 12) for key in keys)
    assert elsewhere / len(keys) == pytest.approx(11 / 12, abs=0.02)
    assert "the records of 11 in 12 keys are in two partitions" in text

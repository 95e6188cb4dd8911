"""The reference page is made from the table."""

from __future__ import annotations

import subprocess
import sys

from aioprod.config import KNOWN_CLASSES, ProducerConfig, settings_of
from aioprod.config._page import reference_page
from aioprod.config._unsupported import UNSUPPORTED_SETTINGS


def test_the_module_prints_the_page() -> None:
    printed = subprocess.run([sys.executable, "-m", "aioprod.config"], capture_output=True, check=True)
    assert printed.stdout.decode() == reference_page()


def test_the_page_has_every_setting_and_every_name_of_a_class() -> None:
    page = reference_page()
    for name in settings_of(ProducerConfig):
        assert page.count(f"\n| `{name.replace('_', '.')}` |") == 1, name
    for name in [*UNSUPPORTED_SETTINGS, *(name for known in KNOWN_CLASSES.values() for name in known)]:
        assert f"`{name}`" in page, name


def test_the_page_begins_with_what_a_newcomer_sets() -> None:
    begin, _, rest = reference_page().partition("\n## What to set first\n")
    assert "`bootstrap.servers`" not in begin
    first = rest.split("\n## ")[0]
    rows = [line for line in first.splitlines() if line.startswith("| [`")]
    assert 10 <= len(rows) <= 14
    assert "| [`linger.ms`](#producer) | `5` |" in first
    assert "| [`client.id`](#connections-metadata-metrics) | none |" in first


def test_a_setting_of_which_one_value_is_built_says_which() -> None:
    page = reference_page()
    assert "Only `false` is accepted: two-phase commit is not built yet. |" in page
    assert "Only `2` is accepted: metrics here cover the whole life of a client" in page

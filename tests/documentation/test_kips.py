"""The page about KIPs names each that the code names, and only versions of requests that aioprod speaks."""

from __future__ import annotations

import re

from aioprod.config import ProducerConfig, settings_of
from aioprod.group import MemberConfig
from aioprod.messages.registry import REQUESTS, REQUESTS_BY_NAME
from tests.support.snippets import DOCS, ROOT

PAGE = (DOCS / "kips.md").read_text(encoding="utf-8")
KIP = re.compile(r"KIP-\d+")
HERE, _, MISSING = PAGE.partition("## What is not here")
MISSING, _, APIS = MISSING.partition("## Versions of requests")
ROWS = [line.strip("| ").split(" | ") for line in HERE.splitlines() if line.startswith("| KIP-")]


def test_each_kip_of_the_code_stands_on_the_page() -> None:
    texts = [path.read_text(encoding="utf-8") for path in (ROOT / "aioprod").rglob("*.py")]
    named = {kip for text in texts for kip in KIP.findall(text)}
    assert len(named) > 70
    assert named - set(KIP.findall(PAGE)) == set()


def test_each_kip_has_one_row_in_order() -> None:
    by_section = [
        [KIP.findall(line.split("|")[1]) for line in section.splitlines() if line.startswith("| KIP-")]
        for section in HERE.split("\n## ")
    ]
    for rows in by_section:
        firsts = [int(kips[0].removeprefix("KIP-")) for kips in rows]
        assert firsts == sorted(firsts)
    named = [kip for rows in by_section for kips in rows for kip in kips]
    assert len(named) == len(set(named))
    assert len(named) > 70


def test_versions_of_requests_are_those_that_aioprod_speaks() -> None:
    found = 0
    for _, _, where, _ in ROWS:
        for name, version in re.findall(r"\b([A-Z]\w+) (\d+)\b", where):
            first, last = REQUESTS_BY_NAME[name].VERSIONS
            assert first <= int(version) <= last, f"{name} {version}"
            found += 1
    assert found > 40
    for name, version in re.findall(r"\(([A-Z]\w+) (\d+)\)", MISSING):
        request = REQUESTS_BY_NAME[name]
        newest = request.VERSIONS[1] if request.STABLE_MAX is None else request.STABLE_MAX
        assert int(version) == newest + 1, f"{name} {version} is spoken"


def test_each_request_stands_there_with_its_newest_version() -> None:
    for request in REQUESTS:
        newest = request.VERSIONS[1] if request.STABLE_MAX is None else request.STABLE_MAX
        row = f"| {request.NAME} | {request.API_KEY} | {request.VERSIONS[0]} to {newest} |\n"
        assert row in APIS
    assert APIS.count(" to ") == len(REQUESTS)


def test_settings_and_releases_of_the_page_exist() -> None:
    known = {name.replace("_", ".") for config in (ProducerConfig, MemberConfig) for name in settings_of(config)}
    changelog = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    for kips, _, where, since in ROWS:
        settings = re.findall(r"`([a-z]+(?:\.[a-z]+)+)(?:=[^`]*)?`", where)
        assert set(settings) <= known | {"member.group", "aioprod.testing"}, kips
        assert f"## [{since}.0]" in changelog or since == "unreleased", kips

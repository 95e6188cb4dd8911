"""The page about confluent-kafka has all calls of that client, and each setting means what aioprod says of it."""

from __future__ import annotations

import re

import confluent_kafka
import confluent_kafka.admin
import confluent_kafka.aio
import pytest

from aioprod import Admin, Member, Producer
from aioprod.config import ProducerConfig, settings_of
from aioprod.group import MemberConfig
from tools.documentation.librdkafka import NAMES, PAGE, meaning

CLIENTS = [
    ("Producer", (confluent_kafka.Producer, confluent_kafka.aio.AIOProducer), Producer),
    ("Consumer", (confluent_kafka.Consumer, confluent_kafka.aio.AIOConsumer), Member),
    ("AdminClient", (confluent_kafka.admin.AdminClient,), Admin),
]


def chapter(name: str) -> list[tuple[str, str]]:
    """The rows of a chapter's table: the other client's, and ours."""
    text = PAGE.read_text().split(f"\n## {name}\n")[1].split("\n## ")[0]
    rows = [line.strip("|").split(" | ") for line in text.splitlines() if line.startswith("|")]
    return [(row[0], row[-1]) for row in rows[2:]]


@pytest.mark.parametrize(("name", "theirs", "ours"), CLIENTS, ids=[name for name, _, _ in CLIENTS])
def test_each_call_has_a_row(name: str, theirs: tuple[type, ...], ours: type) -> None:
    calls = {call for kind in theirs for call in vars(kind) if call[0] != "_"}
    rows = chapter(name)
    named = {word for row, _ in rows for word in re.findall(r"\w+", row)}
    assert calls - named == set()


@pytest.mark.parametrize(("name", "theirs", "ours"), CLIENTS, ids=[name for name, _, _ in CLIENTS])
def test_what_stands_in_place_of_a_call_is_there(name: str, theirs: tuple[type, ...], ours: type) -> None:
    for _, here in chapter(name):
        for call in re.findall(r"(?<![.\w-])(?:await )?(?:producer\.)?([a-z_]+)\(", here):
            if call not in ("on_delivery", "anext", "header"):
                assert hasattr(ours, call), f"{name}: {call}"


def test_settings_that_are_named_exist() -> None:
    ours = {*settings_of(ProducerConfig), *settings_of(MemberConfig)}
    for name in NAMES:
        for named in re.findall(r"`([a-z.]+)`", meaning(name)):
            if "." in named and not named.startswith(("aioprod.", "functools.")):
                assert named.replace(".", "_") in ours, f"{name}: {named}"


def test_defaults_are_those_of_the_code() -> None:
    ours = {**settings_of(ProducerConfig), **settings_of(MemberConfig)}
    rows = [line.strip("| ").split(" | ") for line in PAGE.read_text().split("\n## Defaults")[1].splitlines()]
    checked = 0
    for row in rows:
        names = re.findall(r"`([a-z.]+)`", row[0])
        if len(row) == 3 and names and names[-1].replace(".", "_") in ours and re.fullmatch(r"[\d,]+", row[2]):
            assert int(row[2].replace(",", "")) == ours[names[-1].replace(".", "_")].default, row
            checked += 1
    assert checked >= 4

"""docs/migrating-aiokafka.md says what the code and the suite of pairs say."""

from __future__ import annotations

import inspect
import re
from pathlib import Path

import pytest

from aioprod.compat.aiokafka import AIOKafkaProducer, errors, own_errors
from aioprod.compat.aiokafka.options import DEFAULTS, NO_MEANING
from tests.support.aiokafka_pairs import BEHAVIOURS
from tests.support.faststream_app import WAYS

PAGE = (Path(__file__).parents[2] / "docs" / "migrating-aiokafka.md").read_text()


def rows(head: str) -> list[list[str]]:
    """The cells of the table whose head begins so."""
    (table,) = re.findall(rf"^{re.escape(head)}.*\n\|[-|]+\|\n((?:\|.*\n)+)", PAGE, re.MULTILINE)
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in table.splitlines()]


def test_each_option_is_there_in_aiokafkas_order() -> None:
    assert [option for option, _ in rows("| option |")] == [f"`{name}`" for name in DEFAULTS]


def test_options_without_meaning_have_the_reason_that_is_logged() -> None:
    without = {option.strip("`"): said for option, said in rows("| option |") if said.startswith("no meaning: ")}
    assert without == {name: f"no meaning: {why}" for name, why in NO_MEANING.items()}


@pytest.mark.parametrize("head", ["| option |", "| method |"])
def test_each_row_begins_with_a_verdict(head: str) -> None:
    for name, said in rows(head):
        assert re.match(r"same\b|different: |no meaning: ", said), name


def test_each_method_is_there() -> None:
    public = {name for name, _ in inspect.getmembers(AIOKafkaProducer, callable) if not name.startswith("_")}
    assert {method for method, _ in rows("| method |")} == {f"`{name}()`" for name in public}


def test_the_hint_for_a_consumer_is_seen_in_an_import() -> None:
    with pytest.raises(ImportError, match=r"or becomes aioprod.Member. Hint: .*, under Consumers."):
        exec("from aioprod.compat.aiokafka import AIOKafkaConsumer")
    with pytest.raises(ImportError, match="cannot import name 'NoSuchName'"):
        exec("from aioprod.compat.aiokafka import NoSuchName")


def test_each_exception_of_aiokafka_exists() -> None:
    named = [name for row in rows("| what happened |") for name in re.findall(r"`(\w+)`", row[1])]
    builtin = {"TypeError", "AssertionError"}
    assert {name for name in named if name not in builtin} <= set(own_errors.names())
    for name in set(named) - builtin:
        assert issubclass(getattr(errors, name), Exception)


def test_differences_are_those_of_the_suite() -> None:
    shown = [row[0] for row in rows("| what | aiokafka | aioprod | why |")]
    assert sorted(shown) == sorted({one.differs for one in BEHAVIOURS if one.differs is not None})
    assert all(row[3] for row in rows("| what | aiokafka | aioprod | why |"))


def test_the_number_of_behaviours_is_right() -> None:
    assert re.findall(r"One suite of (\d+) tests", PAGE) == [str(len(BEHAVIOURS))]


def test_no_way_to_publish_is_different() -> None:
    assert len(WAYS) == 18
    assert {said.partition(":")[0] for _, said in rows("| FastStream 0.7 |")} == {"the same"}

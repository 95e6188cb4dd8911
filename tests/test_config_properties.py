"""The syntax of Java's properties files."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aioprod.config import ProducerConfig
from aioprod.config._properties import parse_properties
from aioprod.errors import ConfigError


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        ("", {}),
        ("\n  \n# comment\n ! comment\\\n\t# comment\n", {}),
        ("a=b", {"a": "b"}),
        ("a:b", {"a": "b"}),
        ("a b", {"a": "b"}),
        ("  a \t=\f b \n", {"a": "b "}),
        ("a = = b", {"a": "= b"}),
        ("a", {"a": ""}),
        ("=b", {"": "b"}),
        ("a=1\na=2", {"a": "2"}),
        ("a=1\r\nb=2\rc=3", {"a": "1", "b": "2", "c": "3"}),
        ("a=1,\\\n   2,\\\r\n\t3\nb=4", {"a": "1,2,3", "b": "4"}),
        ("a=1\\\n# part of it", {"a": "1# part of it"}),
        ("a=1\\\n\nb=2", {"a": "1", "b": "2"}),
        ("a=1\\\\\nb=2", {"a": "1\\", "b": "2"}),
        ("a=1\\", {"a": "1"}),
        ("\\", {}),
        (r"a\ b\=c\:d=e", {"a b=c:d": "e"}),
        (r"a=\t\n\r\f\q\\", {"a": "\t\n\r\fq\\"}),
        (r"a=\u00e9\u20AC", {"a": "é€"}),
        (r"a=\ud83d\ude00", {"a": "😀"}),
        (r"a=\ud83d", {"a": "\ufffd"}),
        ("a=é", {"a": "é"}),
        ("\ufeffa=b", {"a": "b"}),
    ],
)
def test_parse_properties(content: str, expected: dict[str, str]) -> None:
    assert parse_properties(content.encode()) == expected


def test_latin_1() -> None:
    assert parse_properties(b"a=\xe9") == {"a": "é"}


def test_a_malformed_escape_is_told_by_its_line_and_without_the_value() -> None:
    with pytest.raises(ConfigError, match=r"^Line 3 of the properties file") as caught:
        parse_properties(b"a=1\n\npassword=hunter\\u12")
    assert "hunter" not in str(caught.value)


@settings(max_examples=100)
@given(st.dictionaries(st.text(min_size=1, max_size=8), st.text(max_size=8), max_size=4))
def test_escaped_text_comes_back(properties: dict[str, str]) -> None:
    def escaped(text: str) -> str:
        units = text.encode("utf-16-be")
        return "".join(f"\\u{units[i : i + 2].hex()}" for i in range(0, len(units), 2))

    content = "\n".join(f"{escaped(key)}={escaped(value)}" for key, value in properties.items())
    assert parse_properties(content.encode("ascii")) == properties


def test_an_unknown_name_of_a_file_is_told_as_it_stands_there_with_its_line(tmp_path: Path) -> None:
    path = tmp_path / "client.properties"
    path.write_text("bootstrap.servers=a:1\n\nlinger.mss=5\n")
    with pytest.raises(ConfigError, match=re.escape(f"'linger.mss' is not a setting ({path}, line 3).")):
        ProducerConfig.from_properties(path)

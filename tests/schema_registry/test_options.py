"""The registry's settings and addresses."""

from __future__ import annotations

from typing import Any

import pytest

from aioprod.config import settings_of
from aioprod.errors import ConfigError
from aioprod.schema_registry import (
    RegistryConfig,
    SchemaRegistry,
)
from aioprod.schema_registry.config import RegistryOptions


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"username": "ann"}, "username is given without password"),
        ({"password": "s3cret"}, "password is given without username"),
        ({"username": "ann", "password": "s3cret", "token": "t"}, "one log-in"),
        ({"key_file": "key.pem"}, "key_file is given without certificate_file"),
        ({"retries": -1}, "retries"),
        ({"token": 7}, "token"),
        ({"user": "ann"}, "user"),
    ],
)
def test_wrong_settings(options: Any, words: str) -> None:
    with pytest.raises(ConfigError, match=words) as raised:
        SchemaRegistry("http://localhost:8081", **options)
    assert "s3cret" not in str(raised.value)


@pytest.mark.parametrize(
    ("urls", "words"),
    [
        ("", "not a URL of the form"),
        ("localhost:8081", "not a URL of the form"),
        ("ftp://host", "not a URL of the form"),
        ("http://", "not a URL of the form"),
        ("http://host:port", "not a URL of the form"),
        ("http://u:s3cret@host?x=1", "not a URL of the form"),
        ("http://u:12/s3cret@host:8081", "not a URL of the form"),
        ("http://u/s3cret@host", "not a URL of the form"),
        ("http://[", "not a URL of the form"),
        ([], "No schema registry is named"),
        ([7], "address is of type int"),
        (None, "address is of type NoneType: give a URL, http://host:port, or a list"),
        (8081, "address is of type int: give a URL"),
        (b"http://localhost:8081", "address is of type bytes: give a URL"),
    ],
)
def test_wrong_addresses(urls: Any, words: str) -> None:
    with pytest.raises(ConfigError, match=words) as raised:
        SchemaRegistry(urls)
    assert "s3cret" not in str(raised.value)


def test_the_keyword_arguments_are_the_settings() -> None:
    table = settings_of(RegistryConfig)
    assert {name: setting.annotation for name, setting in table.items()} == {
        name: annotation.__forward_arg__ for name, annotation in RegistryOptions.__annotations__.items()
    }

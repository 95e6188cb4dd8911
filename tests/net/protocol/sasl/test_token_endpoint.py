"""What a token endpoint is asked and answers, byte by byte."""

from __future__ import annotations

import json
import math
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aioprod.net.protocol.sasl.token_endpoint import (
    error_of,
    is_passing,
    request_by_assertion,
    request_by_secret,
    token_in,
)
from aioprod.testing.security import unsecured_token


def test_a_request_by_secret() -> None:
    """The example of RFC 6749 4.4.2, with the header of its section 2.3.1."""
    request = request_by_secret("s6BhdRkqt3", "gX1fBat3bV", "", encode=False)
    assert request.body == b"grant_type=client_credentials"
    assert dict(request.headers) == {
        "Accept": "application/json",
        "Accept-Encoding": "identity",
        "Authorization": "Basic czZCaGRSa3F0MzpnWDFmQmF0M2JW",
        "Cache-Control": "no-cache",
        "Content-Type": "application/x-www-form-urlencoded",
    }
    assert "gX1f" not in repr(request)


def test_what_is_encoded() -> None:
    plain, encoded = (request_by_secret("a:é", "b+ /", "c d", encode=encode) for encode in (False, True))
    assert plain.headers["Authorization"] == "Basic YTrDqTpiKyAv"
    assert encoded.headers["Authorization"] == "Basic YSUzQSVDMyVBOTpiJTJCKyUyRg=="
    assert plain.body == encoded.body == b"grant_type=client_credentials&scope=c+d"


def test_requests_by_assertion() -> None:
    """RFC 7523 2.1 and 2.2."""
    assert request_by_assertion("a.b.c", "", "", alone=True).body == (
        b"grant_type=urn%3Aietf%3Aparams%3Aoauth%3Agrant-type%3Ajwt-bearer&assertion=a.b.c"
    )
    assert request_by_assertion("a.b.c", "me", "all", alone=False).body == (
        b"grant_type=client_credentials"
        b"&client_assertion_type=urn%3Aietf%3Aparams%3Aoauth%3Aclient-assertion-type%3Ajwt-bearer"
        b"&client_assertion=a.b.c&client_id=me&scope=all"
    )


def test_an_answer() -> None:
    """The example of RFC 6749 4.4.3."""
    answer = (
        b'{"access_token":"2YotnFZFEjr1zCsicMWpAA","token_type":"example","expires_in":3600,"example_parameter":"x"}'
    )
    token = token_in(answer, 1000.0, {"a": "b"})
    assert (token.value, token.expires_at, token.principal) == ("2YotnFZFEjr1zCsicMWpAA", 4600.0, "")
    assert token.extensions == {"a": "b"}


def test_the_end_that_a_token_says_itself_counts() -> None:
    given = unsecured_token("alice", 100.0)
    token = token_in(b'{"access_token":"%s","expires_in":1}' % given.value.encode(), 1000.0, {})
    assert (token.expires_at, token.principal) == (given.expires_at, "alice")


def test_which_answers_are_passing() -> None:
    passing = {status for status in range(200, 600) if is_passing(status)}
    assert passing == {408, 425, 429, *range(500, 600)} - {501, 505}


@given(
    st.binary()
    | st.recursive(st.none() | st.text() | st.floats(), st.lists).map(lambda made: json.dumps(made).encode())
)
def test_hostile_answers(answer: bytes) -> None:
    request = request_by_secret("a", "b", "", encode=False)
    assert error_of(400, answer, request).isprintable()
    with pytest.raises(ValueError, match="answered"):
        token_in(answer, 0.0, {})


@given(
    st.fixed_dictionaries(
        {},
        optional={
            name: st.text() | st.floats() | st.integers() | st.none() | st.lists(st.integers())
            for name in ("access_token", "id_token", "expires_in", "error", "error_description")
        },
    )
)
def test_answers_of_hostile_fields(fields: dict[str, object]) -> None:
    answer = json.dumps(fields).encode()
    request = request_by_secret("a", "secret", "", encode=False)
    assert len(error_of(400, answer, request)) < 250
    with suppress(ValueError):
        assert math.isfinite(token_in(answer, 0.0, {}).expires_at)

"""SASL mechanisms against the published exchanges, and against brokers that break the rules."""

from __future__ import annotations

import base64
import hashlib
import hmac
from collections.abc import Callable

import pytest

from aioprod.net.protocol.sasl.mechanism import SaslError, Steps, Work
from aioprod.net.protocol.sasl.oauthbearer import check_extensions, oauthbearer
from aioprod.net.protocol.sasl.plain import plain
from aioprod.net.protocol.sasl.scram import Scram

NONCE = "rOprNGfwEbeRWgbNEkqO"
CHALLENGE = b"r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096"
FINAL = b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4="


def send(steps: Steps, answer: bytes) -> bytes:
    """What comes after `answer`; work is done on the way."""
    step = steps.send(answer)
    while isinstance(step, Work):
        step = steps.send(step.run())
    return step


def ends(steps: Steps, answer: bytes) -> bool:
    """Whether the mechanism is satisfied with `answer`."""
    with pytest.raises(StopIteration):
        steps.send(answer)
    return True


def test_plain_sends_user_and_password_once() -> None:
    steps = plain("alice", "pässword")
    assert next(steps) == "\0alice\0pässword".encode()
    assert ends(steps, b"")


def test_plain_is_answered_with_nothing() -> None:
    steps = plain("alice", "secret")
    next(steps)
    with pytest.raises(SaslError, match="answered PLAIN with data"):
        steps.send(b"more?")


def test_the_exchange_of_rfc_7677() -> None:
    steps = Scram("SCRAM-SHA-256", "user", "pencil").steps(NONCE)
    assert next(steps) == b"n,,n=user,r=rOprNGfwEbeRWgbNEkqO"
    assert send(steps, CHALLENGE) == (
        b"c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ="
    )
    assert ends(steps, FINAL)


def test_keys_are_made_once_for_a_salt() -> None:
    scram = Scram("SCRAM-SHA-256", "user", "pencil")
    for made in (True, False):
        steps = scram.steps(NONCE)
        next(steps)
        step = steps.send(CHALLENGE)
        assert isinstance(step, Work) is made
        if isinstance(step, Work):
            steps.send(step.run())
        assert ends(steps, FINAL)


def test_no_more_salts_are_kept_than_a_cluster_has() -> None:
    scram = Scram("SCRAM-SHA-256", "user", "pencil")
    for number in range(100):
        steps = scram.steps("x")
        next(steps)
        send(steps, b"r=xy,i=4096,s=" + base64.b64encode(b"%d" % number))
        assert len(scram._salted) <= 16


@pytest.mark.parametrize(("mechanism", "hash_name"), [("SCRAM-SHA-256", "sha256"), ("SCRAM-SHA-512", "sha512")])
def test_both_sides_compute_the_same(mechanism: str, hash_name: str) -> None:
    """The server's part, written down once more from RFC 5802 section 3."""
    salt, rounds = b"0123456789", 5000
    steps = Scram(mechanism, "a=b,c", "p,=w").steps("abc")
    assert next(steps) == b"n,,n=a=3Db=2Cc,r=abc"
    challenge = b"r=abcdef,s=" + base64.b64encode(salt) + b",i=%d" % rounds
    answer = send(steps, challenge)
    without_proof, _, proof = answer.rpartition(b",p=")
    message = b"n=a=3Db=2Cc,r=abc," + challenge + b"," + without_proof
    salted = hashlib.pbkdf2_hmac(hash_name, b"p,=w", salt, rounds)
    stored = hashlib.new(hash_name, hmac.digest(salted, b"Client Key", hash_name)).digest()
    signature = hmac.digest(stored, message, hash_name)
    client_key = bytes(a ^ b for a, b in zip(base64.b64decode(proof), signature, strict=True))
    assert hashlib.new(hash_name, client_key).digest() == stored
    verifier = hmac.digest(hmac.digest(salted, b"Server Key", hash_name), message, hash_name)
    assert ends(steps, b"v=" + base64.b64encode(verifier))


def test_a_delegation_token_says_so() -> None:
    assert next(Scram("SCRAM-SHA-512", "id", "aG1hYw==", is_token=True).steps("abc")) == b"n,,n=id,r=abc,tokenauth=true"


@pytest.mark.parametrize(
    ("challenge", "what"),
    [
        (b"", "nonce"),
        (b"\xff", "not UTF-8"),
        (b"r=other,s=AAAA,i=4096", "nonce"),
        (b"r=abc,s=AAAA,i=4096", "nonce"),
        (b"r=abcd,s=AAAA", "no number"),
        (b"r=abcd,s=AAAA,i=4O96", "no number"),
        (b"r=abcd,s=AAAA,i=" + b"9" * 5000, "no number"),
        ("r=abcd,s=AAAA,i=٤٠٩٦".encode(), "no number"),
        (b"r=abcd,s=AAAA,i=4095", "wants 4095"),
        (b"r=abcd,s=AAAA,i=1000001", "wants 1000001"),
        (b"r=abcd,s=A,i=4096", "not base64"),
        (b"r=abcd,s=\xc3\xa4,i=4096", "not base64"),
        (b"r=abcd,i=4096", "no SCRAM salt"),
        (b"m=ext,r=abcd,s=AAAA,i=4096", "extension"),
    ],
)
def test_a_challenge_that_breaks_the_rules(challenge: bytes, what: str) -> None:
    steps = Scram("SCRAM-SHA-256", "user", "pencil").steps("abc")
    next(steps)
    with pytest.raises(SaslError, match=what):
        steps.send(challenge)


@pytest.mark.parametrize(
    ("final", "what"),
    [
        (b"e=invalid-proof", "invalid-proof"),
        (b"", "does not know the password"),
        (b"v=AAAA", "does not know the password"),
        (b"v=?", "not base64"),
    ],
)
def test_a_server_that_does_not_know_the_password(final: bytes, what: str) -> None:
    steps = Scram("SCRAM-SHA-256", "user", "pencil").steps(NONCE)
    next(steps)
    send(steps, CHALLENGE)
    with pytest.raises(SaslError, match=what):
        steps.send(final)


def test_a_token_that_is_accepted() -> None:
    steps = oauthbearer("abc.def.", {"logicalCluster": "lkc-1", "identityPoolId": "pool 1"})
    assert next(steps) == b"n,,\x01auth=Bearer abc.def.\x01logicalCluster=lkc-1\x01identityPoolId=pool 1\x01\x01"
    assert ends(steps, b"")


def test_a_rejected_token() -> None:
    steps = oauthbearer("abc.def.", {})
    next(steps)
    assert steps.send(b'{"status":"invalid_token"}') == b"\x01"
    with pytest.raises(SaslError, match="invalid_token"):
        steps.send(b"")


@pytest.mark.parametrize("extensions", [{"auth": "x"}, {"": "x"}, {"a1": "x"}, {"a": ""}, {"a": "\1"}, {"a": "ä"}])
def test_extensions_that_cannot_be_sent(extensions: dict[str, str]) -> None:
    with pytest.raises(ValueError, match=r"(?i)extension"):
        check_extensions(extensions)


@pytest.mark.parametrize(
    "make", [lambda: plain("alice", "hunter2"), lambda: Scram("SCRAM-SHA-256", "alice", "hunter2").steps("abc")]
)
def test_no_repr_shows_the_password(make: Callable[[], Steps]) -> None:
    assert "hunter2" not in repr(make())
    assert "hunter2" not in repr(Work(lambda: b"hunter2"))

"""GSSAPI with a context that follows a script: what leaves, and brokers that break the rules."""

from __future__ import annotations

import pytest

from aioprod.net.protocol.sasl.gssapi import gssapi
from aioprod.net.protocol.sasl.mechanism import SaslError, Steps, Work


class Script:
    """Completes after `rounds` tokens of the broker; a signed message is the message behind `signed:`."""

    def __init__(self, rounds: int) -> None:
        self.heard: list[bytes] = []
        self._rounds = rounds

    @property
    def is_complete(self) -> bool:
        return len(self.heard) >= self._rounds

    def step(self, token: bytes) -> bytes:
        self.heard.append(token)
        return b"" if self.is_complete else b"token %d" % len(self.heard)

    def unwrap(self, message: bytes) -> bytes:
        return message.removeprefix(b"signed:")

    def wrap(self, message: bytes) -> bytes:
        return b"signed:" + message


def send(steps: Steps, answer: bytes) -> bytes:
    """What comes after `answer`; work is done on the way."""
    step = steps.send(answer)
    while isinstance(step, Work):
        step = steps.send(step.run())
    return step


@pytest.mark.parametrize("rounds", [1, 2, 4])
def test_an_exchange(rounds: int) -> None:
    """RFC 4752 3.1: tokens until both know each other, an empty one at last, then the layers."""
    context = Script(rounds)
    steps = gssapi(b"ticket", context)
    assert next(steps) == b"ticket"
    for number in range(1, rounds):
        assert send(steps, b"challenge %d" % number) == b"token %d" % number
    assert send(steps, b"last challenge") == b""
    assert send(steps, b"signed:\x07\x00\xff\xff") == b"signed:\x01\x00\x00\x00"
    with pytest.raises(StopIteration):
        steps.send(b"")
    assert context.heard[-1] == b"last challenge"


def test_a_context_that_is_complete_at_once() -> None:
    steps = gssapi(b"ticket", Script(0))
    next(steps)
    assert send(steps, b"signed:\x01\x00\x00\x00") == b"signed:\x01\x00\x00\x00"


@pytest.mark.parametrize(
    ("offer", "what"),
    [
        (b"", "offered no security layers of GSSAPI"),
        (b"signed:\x01\x00\x00\x00\x00", "offered no security layers of GSSAPI"),
        (b"signed:\x06\x00\xff\xff", "insists on a security layer of GSSAPI"),
    ],
)
def test_offers_that_are_not_taken(offer: bytes, what: str) -> None:
    steps = gssapi(b"ticket", Script(1))
    next(steps)
    send(steps, b"challenge")
    with pytest.raises(SaslError, match=what):
        send(steps, offer)


def test_a_broker_that_never_ends() -> None:
    steps = gssapi(b"ticket", Script(100))
    next(steps)
    for _ in range(5):
        send(steps, b"challenge")
    with pytest.raises(SaslError, match="without an end"):
        send(steps, b"challenge")


def test_a_broker_that_has_something_to_add() -> None:
    steps = gssapi(b"ticket", Script(0))
    next(steps)
    send(steps, b"signed:\x01\x00\x00\x00")
    with pytest.raises(SaslError, match="answered the end of GSSAPI with data"):
        steps.send(b"more")

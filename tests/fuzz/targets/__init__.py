"""All targets by name: the function that gets the bytes, the errors that it may raise, and the seeds."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final

from tests.fuzz.limits import ALLOWED
from tests.fuzz.targets import columns, messages, records, security, sockets, stores, streams

__all__ = ["TARGETS", "Target"]


@dataclass(frozen=True, slots=True)
class Target:
    """`run` takes any bytes; it raises one of `allowed`, or AssertionError for a broken invariant."""

    name: str
    run: Callable[[bytes], None]
    seeds: Callable[[], Iterator[bytes]]

    @property
    def allowed(self) -> tuple[type[Exception], ...]:
        """The errors that are not findings."""
        return ALLOWED[self.name]

    def check(self, data: bytes) -> bool:
        """Whether the bytes are parsed without an error; raises findings."""
        try:
            self.run(data)
        except self.allowed:
            return False
        return True


TARGETS: Final[dict[str, Target]] = {
    target.name: target
    for target in (
        Target("responses", messages.responses, messages.response_seeds),
        Target("requests", messages.requests, messages.request_seeds),
        Target("framing", streams.framing, streams.framing_seeds),
        Target("connection", sockets.connection, sockets.connection_seeds),
        Target("answer", streams.answer, streams.answer_seeds),
        Target("metadata", messages.metadata, messages.metadata_seeds),
        Target("batches", records.batches, records.batch_seeds),
        Target("codecs", records.codecs, records.codec_seeds),
        Target("builder", records.builder, records.builder_seeds),
        Target("login", security.login, security.login_seeds),
        Target("tokens", security.tokens, security.token_seeds),
        Target("jaas", security.jaas, security.jaas_seeds),
        Target("pem", security.pem, security.pem_seeds),
        Target("stores", stores.stores, stores.store_seeds),
        Target("arrow", columns.arrow, columns.arrow_seeds),
    )
}

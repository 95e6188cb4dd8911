"""Logging in to a broker, without its connection: which requests are sent, and what the answers mean (KIP-43, KIP-152).

SaslHandshake names the mechanism, SaslAuthenticate carries its tokens. The handshake and the first token leave
together: a broker answers in order, and one that does not take the mechanism says so first.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, NoReturn

from aioprod._error_codes import ErrorCode
from aioprod.errors import AuthenticationError
from aioprod.messages import SaslAuthenticateRequest, SaslHandshakeRequest
from aioprod.messages.sasl_authenticate import SaslAuthenticateResponse
from aioprod.messages.sasl_handshake import SaslHandshakeResponse
from aioprod.net.protocol.sasl.mechanism import SaslError, Steps, Work
from aioprod.wire.schema import Response

__all__ = ["Login"]

_MECHANISMS_MAX: Final = 10


class Login:
    """One log-in on one connection; it `is_done` when the broker has accepted it.

    `user` is how errors name the user, and `hint` says what to do when the broker rejects the log-in.
    """

    __slots__ = (
        "_hint",
        "_identity",
        "_is_renewal",
        "_steps",
        "_user",
        "is_done",
        "mechanism",
        "session_lifetime_s",
        "work",
    )

    def __init__(self, mechanism: str, steps: Steps, *, user: str, hint: str, identity: object = None) -> None:
        self.mechanism = mechanism
        self.is_done = False
        self.session_lifetime_s = 0.0
        """How long the broker accepts requests once the log-in is done; 0.0 for ever (KIP-368)."""
        self.work: Work | None = None
        """Has to be run in a thread, and its result handed to `worked`, before there is more to send."""
        self._steps = steps
        self._user = user
        self._hint = hint
        self._identity = identity
        """Differs where the principal or its password do."""
        self._is_renewal = False

    def is_of_same(self, other: Login | None) -> bool:
        """Whether both are of the same principal and password, as far as that is known: a session can continue then."""
        return other is None or (self.mechanism, self._identity) == (other.mechanism, other._identity)

    def begin(self, *, is_renewal: bool) -> list[SaslHandshakeRequest | SaslAuthenticateRequest]:
        """What to send first, in one go; `is_renewal`: the connection has logged in before."""
        self._is_renewal = is_renewal
        return [SaslHandshakeRequest(mechanism=self.mechanism), *self._tokens(next(self._steps))]

    def answered(self, answer: Response, peer: str) -> list[SaslAuthenticateRequest]:
        """Read the answer to a request: what to send next. Raises AuthenticationError if the broker rejected it."""
        if isinstance(answer, SaslAuthenticateResponse):
            return self._token_answered(answer, peer)
        assert isinstance(answer, SaslHandshakeResponse)
        self._chosen(answer, peer)
        return []

    def _chosen(self, answer: SaslHandshakeResponse, peer: str) -> None:
        code = ErrorCode.of(answer.error_code)
        if code == ErrorCode.NONE:
            return
        if code == ErrorCode.UNSUPPORTED_SASL_MECHANISM:
            offered = ", ".join(sorted(answer.mechanisms)[:_MECHANISMS_MAX])
            raise AuthenticationError(
                f"{peer} does not take sasl.mechanism={self.mechanism}; it takes {offered or 'none'}.",
                hint="Set sasl.mechanism to one that it takes.",
            )
        if code == ErrorCode.ILLEGAL_SASL_STATE and not self._is_renewal:
            raise AuthenticationError(
                f"{peer} takes no log-in at this port.",
                hint="Set security.protocol to PLAINTEXT or SSL, or name the port of a listener with SASL.",
            )
        raise AuthenticationError(
            f"{peer} rejected the start of the log-in of {self._user} by {self.mechanism}: {ErrorCode.name_of(code)}."
        )

    def _token_answered(self, answer: SaslAuthenticateResponse, peer: str) -> list[SaslAuthenticateRequest]:
        code = ErrorCode.of(answer.error_code)
        if code != ErrorCode.NONE:
            self._reject(peer, answer.error_message or ErrorCode.name_of(code))
        self.session_lifetime_s = max(0, answer.session_lifetime_ms) / 1000.0
        return self._continue(answer.auth_bytes, peer)

    def worked(self, result: bytes, peer: str) -> list[SaslAuthenticateRequest]:
        """The work is done: what to send next."""
        self.work = None
        return self._continue(result, peer)

    def _continue(self, answer: bytes, peer: str) -> list[SaslAuthenticateRequest]:
        try:
            return list(self._tokens(self._steps.send(answer)))
        except StopIteration:
            self.is_done = True
            return []
        except SaslError as failure:
            raise AuthenticationError(
                f"The log-in of {self._user} by {self.mechanism} was aborted: {peer} {failure.what}.", hint=self._hint
            ) from None

    def _tokens(self, step: bytes | Work) -> Iterable[SaslAuthenticateRequest]:
        if isinstance(step, Work):
            self.work = step
        else:
            yield SaslAuthenticateRequest(auth_bytes=step)

    def _reject(self, peer: str, reason: str) -> NoReturn:
        raise AuthenticationError(
            f"{peer} rejected the log-in of {self._user} by {self.mechanism}: {reason.rstrip('.')}.", hint=self._hint
        )

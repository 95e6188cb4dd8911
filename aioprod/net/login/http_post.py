"""One HTTP POST by httpx, with a bounded response; only clients that need it import httpx."""

from __future__ import annotations

import ssl
from collections.abc import Iterator
from typing import Final

import httpx

from aioprod._short_reprs import printable
from aioprod.net.happy_eyeballs import reason_of
from aioprod.net.protocol.sasl.token_endpoint import TokenRequest

__all__ = ["PostError", "post"]

_ANSWER_MAX: Final = 256 * 1024
_REASON_MAX: Final = 200


class PostError(Exception):
    """The request got no response."""

    def __init__(self, what: str, *, is_passing: bool) -> None:
        super().__init__(what)
        self.what = what
        """What happened; it continues a sentence."""
        self.is_passing = is_passing
        """A retry may succeed."""


async def post(
    url: str,
    request: TokenRequest,
    *,
    context: ssl.SSLContext,
    connect_timeout_ms: int | None,
    read_timeout_ms: int | None,
) -> tuple[int, bytes]:
    """The status and the content of the response; raises PostError without one, or if it is larger than 256 KiB.

    Redirects are not followed. Proxies are those of the environment.
    """
    timeout = httpx.Timeout(None, connect=_seconds(connect_timeout_ms), read=_seconds(read_timeout_ms))
    try:
        client = httpx.AsyncClient(verify=context, timeout=timeout, follow_redirects=False)
    except (ImportError, ValueError):
        # httpx reads the environment when a client is made.
        raise PostError("can't be reached by the proxy that the environment names", is_passing=False) from None
    try:
        async with client:
            return await _answered(client, url, request)
    except (httpx.HTTPError, httpx.InvalidURL, ValueError) as error:
        raise _explained(error, request) from None


async def _answered(client: httpx.AsyncClient, url: str, request: TokenRequest) -> tuple[int, bytes]:
    built = client.build_request("POST", url, content=request.body, headers=dict(request.headers))
    built.url = _LoggedUrl(url)
    response = await client.send(built, stream=True)
    try:
        answer = bytearray()
        async for part in response.aiter_raw():
            answer += part
            if len(answer) > _ANSWER_MAX:
                raise PostError(f"answered with more than {_ANSWER_MAX} bytes", is_passing=False)
        return response.status_code, bytes(answer)
    finally:
        await response.aclose()


class _LoggedUrl(httpx.URL):
    """A URL that is written without its query, which may have a secret: httpx logs each request at level INFO."""

    def __str__(self) -> str:
        return str(self.copy_with(query=None))

    def __repr__(self) -> str:
        return repr(self.copy_with(query=None))


def _explained(error: Exception, request: TokenRequest) -> PostError:
    if isinstance(error, httpx.ConnectTimeout):
        return PostError("can't be reached within sasl.login.connect.timeout.ms", is_passing=True)
    if isinstance(error, httpx.TimeoutException):
        return PostError("did not answer within sasl.login.read.timeout.ms", is_passing=True)
    causes = list(_causes(error))
    for cause in causes:
        if isinstance(cause, ssl.SSLCertVerificationError):
            reason = printable(cause.verify_message, _REASON_MAX).rstrip(".")
            return PostError(
                f"has a certificate that is not accepted ({reason}; its CA is set by ssl.truststore.location in "
                "sasl.jaas.config)",
                is_passing=False,
            )
    system = (reason_of(cause) for cause in causes if isinstance(cause, OSError) and cause.errno is not None)
    # The text of these errors might quote a secret that can't be sent; that of others, one that the peer repeats.
    own = "" if isinstance(error, (httpx.LocalProtocolError, ValueError)) else str(error)
    reason = request.quoted(next(system, own) or type(error).__name__).rstrip(".")
    what = "can't be reached" if isinstance(error, httpx.ConnectError) else "can't be requested"
    return PostError(f"{what}: {reason}", is_passing=isinstance(error, httpx.TransportError))


def _causes(error: BaseException) -> Iterator[BaseException]:
    """An error and its causes, the innermost last."""
    yield error
    if isinstance(error, BaseExceptionGroup):
        for each in error.exceptions:
            yield from _causes(each)
    if error.__cause__ is not None:
        yield from _causes(error.__cause__)
    elif error.__context__ is not None:
        yield from _causes(error.__context__)


def _seconds(milliseconds: int | None) -> float | None:
    return None if milliseconds is None else milliseconds / 1000.0

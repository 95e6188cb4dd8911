"""Which version of each request a connection uses (KIP-35): the highest that both sides speak, broker by broker."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Generic, TypeVar

from aioprod.errors import ErrorCode, UnsupportedVersionError
from aioprod.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from aioprod.wire.buffer import Buffer, Reader
from aioprod.wire.codec import decode
from aioprod.wire.schema import AnyRequest, Request, Response

__all__ = ["ApiVersions", "ByVersion", "decode_api_versions", "retry_version"]

ResponseT_co = TypeVar("ResponseT_co", bound=Response, covariant=True)


class ByVersion(Generic[ResponseT_co]):
    """A request that is made when the version is known.

    For messages whose fields differ by version (FindCoordinator, OffsetFetch), and for those of which a version does
    more than the caller wants (KIP-890: Produce, TxnOffsetCommit and EndTxn below transaction.version 2).
    """

    __slots__ = ("at_most", "build", "kind")

    def __init__(
        self,
        kind: type[Request[ResponseT_co]],
        build: Callable[[int], Request[ResponseT_co]],
        at_most: int | None = None,
    ) -> None:
        self.kind = kind
        """The class of the request."""
        self.build = build
        """Makes the request in a version."""
        self.at_most = at_most
        """The highest version that may be used."""

    @property
    def NAME(self) -> str:  # noqa: N802  # as a request has it
        """The API's name."""
        return self.kind.NAME


class ApiVersions:
    """The versions that one broker supports, from its answer when the connection was made."""

    __slots__ = ("_picked", "features", "features_epoch", "ranges")

    def __init__(
        self,
        ranges: Mapping[int, tuple[int, int]],
        features: Mapping[str, int] | None = None,
        features_epoch: int = -1,
    ) -> None:
        self.ranges = ranges
        """API key -> the first and the last version."""
        self.features = {} if features is None else features
        """Feature -> its highest finalized level."""
        self.features_epoch = features_epoch
        """The epoch of `features`, -1 if it is unknown: of two brokers' features those with the higher epoch are
        right."""
        self._picked: dict[tuple[type[AnyRequest], int | None], int] = {}

    @classmethod
    def from_response(cls, response: ApiVersionsResponse) -> ApiVersions:
        """The table of a response without error."""
        return cls(
            {api.api_key: (api.min_version, api.max_version) for api in response.api_keys},
            {feature.name: feature.max_version_level for feature in response.finalized_features},
            response.finalized_features_epoch,
        )

    def pick(self, request: type[AnyRequest], *, at_most: int | None = None) -> int:
        """The highest version of `request` that both sides speak, not above `at_most`.

        Versions that Kafka calls unstable are never picked, nor those that are not declared here: brokers advertise
        Produce from 0 on and reject what is below 3 (KAFKA-18659). Raises UnsupportedVersionError if none is left.
        """
        picked = self._picked.get((request, at_most))
        if picked is None:
            picked = self._highest(request, at_most)
            if picked is None:
                raise UnsupportedVersionError(self._no_common_version(request, at_most))
            self._picked[request, at_most] = picked
        return picked

    def supports(self, request: type[AnyRequest], *, at_least: int = 0) -> bool:
        """Whether `pick` finds a version of `request` that is not below `at_least`."""
        version = self._highest(request, None)
        return version is not None and version >= at_least

    def in_words(self) -> str:
        """The requests that can be sent to this broker, each with its version, for a log."""
        from aioprod.messages.registry import REQUESTS  # All messages; a plain producer needs five of them.

        versions = ((kind.NAME, self._highest(kind, None)) for kind in REQUESTS)
        return ", ".join(f"{name} {version}" for name, version in versions if version is not None)

    def _highest(self, request: type[AnyRequest], at_most: int | None) -> int | None:
        if request.API_KEY not in self.ranges:
            return None
        broker_first, broker_last = self.ranges[request.API_KEY]
        first, last = _ours(request)
        highest = min(broker_last, last if at_most is None else min(last, at_most))
        return highest if highest >= max(broker_first, first) else None

    def _no_common_version(self, request: type[AnyRequest], at_most: int | None) -> str:
        first, last = _ours(request)
        ours = f"aioprod speaks versions {first} to {last}"
        if request.API_KEY not in self.ranges:
            return f"The broker does not know {request.NAME} requests, of which {ours}."
        broker_first, broker_last = self.ranges[request.API_KEY]
        cap = "" if at_most is None else f" and needs {at_most} at most here"
        return f"The broker speaks versions {broker_first} to {broker_last} of {request.NAME} requests, {ours}{cap}."


def _ours(request: type[AnyRequest]) -> tuple[int, int]:
    first, last = request.VERSIONS
    return first, last if request.STABLE_MAX is None else request.STABLE_MAX


def decode_api_versions(version: int, body: Buffer) -> ApiVersionsResponse:
    """The answer to an ApiVersions request of `version`; a broker that lacks the version answers in that of 0.

    Raises ProtocolError for malformed bytes.
    """
    is_unsupported = len(body) >= 2 and Reader(body).int16() == ErrorCode.UNSUPPORTED_VERSION
    return decode(ApiVersionsResponse, 0 if is_unsupported else version, body)


def retry_version(response: ApiVersionsResponse) -> int:
    """The ApiVersions version to use after UNSUPPORTED_VERSION: the broker's last one if it says so, else 0."""
    offered = ApiVersions.from_response(response)
    return offered.pick(ApiVersionsRequest) if offered.supports(ApiVersionsRequest) else 0

"""Which version of each request a connection uses (KIP-35): the highest that both sides speak, broker by broker."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final, Generic, TypeVar

from aioprod.errors import BrokerError, ErrorCode, UnsupportedVersionError
from aioprod.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from aioprod.wire.buffer import Buffer, Reader
from aioprod.wire.codec import decode
from aioprod.wire.schema import AnyRequest, Request, Response

__all__ = [
    "FIRST_WITH_IDENTITY",
    "ApiVersions",
    "ByVersion",
    "decode_api_versions",
    "first_version",
    "rejection",
    "retry_version",
]

FIRST_WITH_IDENTITY: Final = 5
"""The ApiVersions version that says which broker of which cluster is expected (KIP-1242)."""

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

    def compares(self, request: ApiVersionsRequest) -> bool:
        """Whether this broker says if it is another one than the request names."""
        return request.cluster_id is not None and self.supports(ApiVersionsRequest, at_least=FIRST_WITH_IDENTITY)

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


def first_version(request: ApiVersionsRequest) -> int:
    """The ApiVersions version to try first: a newer one than is needed costs a second request with older brokers."""
    return FIRST_WITH_IDENTITY - 1 if request.cluster_id is None else FIRST_WITH_IDENTITY


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


def rejection(peer: str, request: ApiVersionsRequest, version: int, code: ErrorCode | int) -> BrokerError:
    """The error for a broker that rejects an ApiVersions request of this version."""
    if code == ErrorCode.REBOOTSTRAP_REQUIRED:
        return BrokerError(
            f"{peer} is not broker {request.node_id} of cluster {request.cluster_id!r}: the address leads to another "
            "broker, or to another cluster.",
            code=code,
            hint="Check where names, forwarded ports and load balancers lead. The client looks the address up again.",
        )
    return BrokerError(f"{peer} answered ApiVersions v{version} with {ErrorCode.name_of(code)}.", code=code)

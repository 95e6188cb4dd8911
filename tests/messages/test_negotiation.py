from __future__ import annotations

import pytest

from aioprod.errors import ErrorCode, ProtocolError, UnsupportedVersionError
from aioprod.messages import (
    ApiVersionsResponse,
    EndTxnRequest,
    InitProducerIdRequest,
    MetadataRequest,
    ProduceRequest,
    SaslHandshakeRequest,
)
from aioprod.messages.api_versions import ApiVersion, FinalizedFeatureKey
from aioprod.messages.negotiation import ApiVersions, decode_api_versions, retry_version
from aioprod.messages.registry import REQUESTS
from aioprod.wire.codec import encode
from aioprod.wire.schema import AnyRequest


def broker(**spans: tuple[int, int]) -> ApiVersions:
    """A broker that speaks just these APIs."""
    keys = {kind.NAME: kind.API_KEY for kind in REQUESTS}
    return ApiVersions({keys[name]: span for name, span in spans.items()})


@pytest.mark.parametrize(
    ("request_type", "span", "picked"),
    [
        (ProduceRequest, (0, 13), 13),
        (ProduceRequest, (0, 7), 7),
        (ProduceRequest, (3, 99), 13),
        (ProduceRequest, (13, 20), 13),
        (MetadataRequest, (0, 0), 0),
        (InitProducerIdRequest, (0, 6), 5),
        (InitProducerIdRequest, (0, 4), 4),
    ],
)
def test_the_highest_common_version_is_picked(
    request_type: type[AnyRequest], span: tuple[int, int], picked: int
) -> None:
    assert broker(**{request_type.NAME: span}).pick(request_type) == picked


def test_a_caller_may_cap_the_version() -> None:
    versions = broker(Produce=(0, 13))
    assert versions.pick(ProduceRequest, at_most=12) == 12
    assert versions.pick(ProduceRequest, at_most=99) == 13
    assert versions.pick(ProduceRequest) == 13
    assert versions.pick(ProduceRequest, at_most=12) == 12, "each question has its own answer"
    with pytest.raises(UnsupportedVersionError, match=r"aioprod speaks versions 3 to 13 and needs 2 at most here\.$"):
        versions.pick(ProduceRequest, at_most=2)


@pytest.mark.parametrize(
    ("versions", "request_type", "message"),
    [
        (
            broker(Produce=(0, 2)),
            ProduceRequest,
            "The broker speaks versions 0 to 2 of Produce requests, aioprod speaks versions 3 to 13.",
        ),
        (
            broker(Produce=(14, 15)),
            ProduceRequest,
            "The broker speaks versions 14 to 15 of Produce requests, aioprod speaks versions 3 to 13.",
        ),
        (
            broker(InitProducerId=(6, 6)),
            InitProducerIdRequest,
            "The broker speaks versions 6 to 6 of InitProducerId requests, aioprod speaks versions 0 to 5.",
        ),
        (broker(), EndTxnRequest, "The broker does not know EndTxn requests, of which aioprod speaks versions 0 to 5."),
    ],
)
def test_no_common_version(versions: ApiVersions, request_type: type[AnyRequest], message: str) -> None:
    assert not versions.supports(request_type)
    with pytest.raises(UnsupportedVersionError) as caught:
        versions.pick(request_type)
    assert str(caught.value) == message


def test_what_a_broker_supports() -> None:
    versions = broker(EndTxn=(0, 4))
    assert versions.supports(EndTxnRequest)
    assert versions.supports(EndTxnRequest, at_least=4)
    assert not versions.supports(EndTxnRequest, at_least=5)


def test_what_can_be_sent_to_a_broker_in_words() -> None:
    versions = broker(EndTxn=(0, 4), Produce=(0, 9), SaslHandshake=(2, 3))
    assert versions.in_words() == "Produce 9, EndTxn 4"


RESPONSE = ApiVersionsResponse(
    api_keys=(ApiVersion(api_key=0, min_version=0, max_version=9), ApiVersion(api_key=4711)),
    finalized_features_epoch=12,
    finalized_features=(FinalizedFeatureKey(name="transaction.version", max_version_level=2, min_version_level=1),),
)


def test_a_table_is_made_from_a_response() -> None:
    versions = ApiVersions.from_response(RESPONSE)
    assert versions.ranges == {0: (0, 9), 4711: (0, 0)}
    assert versions.features == {"transaction.version": 2}
    assert versions.features_epoch == 12
    assert versions.pick(ProduceRequest) == 9


def test_a_table_without_features() -> None:
    versions = ApiVersions.from_response(ApiVersionsResponse())
    assert (versions.features, versions.features_epoch) == ({}, -1)
    assert not versions.supports(SaslHandshakeRequest)


@pytest.mark.parametrize("version", range(5))
def test_an_answer_in_the_version_that_was_asked_for(version: int) -> None:
    response = ApiVersionsResponse(api_keys=(ApiVersion(api_key=18, max_version=3),))
    assert decode_api_versions(version, encode(response, version)) == response


def test_a_broker_that_lacks_the_version_answers_in_that_of_0() -> None:
    refusal = ApiVersionsResponse(
        error_code=ErrorCode.UNSUPPORTED_VERSION, api_keys=(ApiVersion(api_key=18, max_version=2),)
    )
    response = decode_api_versions(4, encode(refusal, 0))
    assert response == refusal
    assert retry_version(response) == 2


@pytest.mark.parametrize(
    "api_keys", [(), (ApiVersion(api_key=0),), (ApiVersion(api_key=18, min_version=6, max_version=7),)]
)
def test_a_refusal_that_offers_nothing_leaves_version_0(api_keys: tuple[ApiVersion, ...]) -> None:
    assert retry_version(ApiVersionsResponse(error_code=35, api_keys=api_keys)) == 0


@pytest.mark.parametrize("body", [b"", b"\x00", b"\x00\x23", b"\x00\x23\x00"])
def test_a_malformed_answer_is_refused(body: bytes) -> None:
    with pytest.raises(ProtocolError, match="This is not a valid ApiVersionsResponse"):
        decode_api_versions(4, body)

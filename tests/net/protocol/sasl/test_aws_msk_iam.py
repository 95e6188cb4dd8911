"""The signature of AWS_MSK_IAM against that of other clients, and what brokers answer."""

from __future__ import annotations

import base64
import datetime
import json
from typing import Final
from unittest import mock
from urllib.parse import parse_qsl, urlsplit

import botocore.auth
import botocore.awsrequest
import botocore.credentials
import pytest
from hypothesis import given
from hypothesis import strategies as st

from aioprod.net.protocol.sasl.aws_msk_iam import AwsKeys, aws_msk_iam, msk_token, region_of, signed_query
from aioprod.net.protocol.sasl.mechanism import SaslError

SESSION: Final = "a/session+token=="
EXAMPLE: Final = ("AKIDEXAMPLE", "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY")
AT: Final = 1795352400.0
"""2026-11-22T13:00:00Z"""


@pytest.mark.parametrize(
    ("session", "signature"),
    [
        ("", "0fa42ae3d5693777942a7a4028b564f0b372bafa2f71c1a19ad60680e6cb994b"),
        ("XXXXX", "b0619c50b7ecb4a7f6f92bd5f733770df5710e97b25146f97015c0b1db783b05"),
    ],
)
def test_the_vectors_of_kafka_python(session: str, signature: str) -> None:
    keys = AwsKeys("X" * 20, "X" * 40, session)
    steps = aws_msk_iam("localhost", "us-east-1", keys, 1629321911.0, "aioprod/1")
    first = next(steps)
    assert isinstance(first, bytes)
    fields = json.loads(first)
    temporary = {"x-amz-security-token": session} if session else {}
    assert fields == temporary | {
        "version": "2020_10_22",
        "host": "localhost",
        "user-agent": "aioprod/1",
        "action": "kafka-cluster:Connect",
        "x-amz-algorithm": "AWS4-HMAC-SHA256",
        "x-amz-credential": f"{'X' * 20}/20210818/us-east-1/kafka-cluster/aws4_request",
        "x-amz-date": "20210818T212511Z",
        "x-amz-expires": "900",
        "x-amz-signedheaders": "host",
        "x-amz-signature": signature,
    }
    with pytest.raises(StopIteration):
        steps.send(b'{"version":"2020_10_22","request-id":"2a8b2d1e"}')


@pytest.mark.parametrize(
    ("session", "signature"),
    [
        ("", "ac3b1a74d3aad5551e22f37dc1b4ec79c58f09d34501fad345318334c7a9e17b"),
        (SESSION, "41cbbcf8f9e40994653065c6184abfcf297664b6ddc9c853dcc869486025226f"),
    ],
)
def test_the_vectors_of_amazons_own_signer(session: str, signature: str) -> None:
    """aws-msk-iam-sasl-signer-python 1.0.2, whose token has the same parts in another order."""
    token = msk_token("eu-west-1", AwsKeys(*EXAMPLE, session), AT, "aws-msk-iam-sasl-signer-python/1.0.2")
    assert token.expires_at == AT + 900
    assert EXAMPLE[1] not in repr(token)
    url = urlsplit(base64.urlsafe_b64decode(token.value + "=" * (-len(token.value) % 4)).decode())
    assert (url.scheme, url.netloc, url.path) == ("https", "kafka.eu-west-1.amazonaws.com", "/")
    temporary = {"X-Amz-Security-Token": session} if session else {}
    assert dict(parse_qsl(url.query, strict_parsing=True)) == temporary | {
        "Action": "kafka-cluster:Connect",
        "X-Amz-Algorithm": "AWS4-HMAC-SHA256",
        "X-Amz-Credential": "AKIDEXAMPLE/20261122/eu-west-1/kafka-cluster/aws4_request",
        "X-Amz-Date": "20261122T130000Z",
        "X-Amz-Expires": "900",
        "X-Amz-SignedHeaders": "host",
        "X-Amz-Signature": signature,
        "User-Agent": "aws-msk-iam-sasl-signer-python/1.0.2",
    }


@given(
    st.from_regex(r"[a-z0-9.-]{1,60}", fullmatch=True),
    st.text(st.characters(codec="utf-8", exclude_categories=["Cc", "Cs"]), max_size=60),
    st.integers(0, 4_000_000_000),
)
def test_botocore_signs_the_same(host: str, session: str, second: int) -> None:
    keys = AwsKeys(*EXAMPLE, session)
    moment = datetime.datetime.fromtimestamp(second, datetime.UTC)
    request = botocore.awsrequest.AWSRequest("GET", f"https://{host}/", params={"Action": "kafka-cluster:Connect"})
    credentials = botocore.credentials.Credentials(keys.access, keys.secret, session or None)
    with mock.patch("botocore.auth.get_current_datetime", return_value=moment):
        botocore.auth.SigV4QueryAuth(credentials, "kafka-cluster", "eu-west-1", expires=900).add_auth(request)
    theirs = dict(parse_qsl(urlsplit(request.url).query, strict_parsing=True, keep_blank_values=True))
    assert dict(signed_query(host, "eu-west-1", keys, second + 0.5)) == theirs


@pytest.mark.parametrize("answer", [b"", b"no JSON", b"3", b"[" * 100_000])
def test_answers_that_amazon_msk_does_not_give(answer: bytes) -> None:
    steps = aws_msk_iam("localhost", "us-east-1", AwsKeys(*EXAMPLE), AT, "aioprod/1")
    next(steps)
    with pytest.raises(SaslError, match="did not answer AWS_MSK_IAM as Amazon MSK does"):
        steps.send(answer)


@pytest.mark.parametrize(
    ("host", "region"),
    [
        ("b-1.orders.abc123.c2.kafka.eu-west-1.amazonaws.com", "eu-west-1"),
        ("boot-abc.c1.kafka-serverless.us-gov-east-1.amazonaws.com.", "us-gov-east-1"),
        ("b-1-public.orders.abc.c2.kafka.cn-north-1.AMAZONAWS.com.cn", "cn-north-1"),
        ("localhost", None),
        ("kafka.eu-west-1.amazonaws.com.example.com", None),
        ("amazonaws.com", None),
    ],
)
def test_the_region_in_the_name_of_a_broker(host: str, region: str | None) -> None:
    assert region_of(host) == region


def test_keys_are_in_no_repr() -> None:
    assert EXAMPLE[1] not in repr(AwsKeys(*EXAMPLE, SESSION))

"""Assertions: the published vectors of their signatures, what they say, and keys that can't sign."""

from __future__ import annotations

import base64
import json
import sys
from typing import Any, Final

import pytest
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.asymmetric.types import PrivateKeyTypes
from cryptography.hazmat.primitives.asymmetric.utils import encode_dss_signature

from aioprod.config import ClientConfig
from aioprod.errors import ConfigError
from aioprod.net.protocol.sasl.assertion import assertion_fields, signature, signed_jwt, template_in

# RFC 7515, appendices A.2 and A.3. cspell:disable
PAYLOAD: Final = "eyJpc3MiOiJqb2UiLA0KICJleHAiOjEzMDA4MTkzODAsDQogImh0dHA6Ly9leGFtcGxlLmNvbS9pc19yb290Ijp0cnVlfQ"
RS256_N: Final = (
    "ofgWCuLjybRlzo0tZWJjNiuSfb4p4fAkd_wWJcyQoTbji9k0l8W26mPddxHmfHQp-Vaw-4qPCJrcS2mJPMEzP1Pt0Bm4d4QlL-yRT-SFd2lZS-pCgNMs"
    "D1W_YpRPEwOWvG6b32690r2jZ47soMZo9wGzjb_7OMg0LOL-bSf63kpaSHSXndS5z5rexMdbBYUsLA9e-KXBdQOS-UTo7WTBEMa2R2CapHg665xsmtdV"
    "MTBQY4uDZlxvb3qCo5ZwKh9kG4LT6_I5IhlJH7aGhyxXFvUK-DWNmoudF8NAco9_h9iaGNj8q2ethFkMLs91kzk2PAcDTW9gb54h4FRWyuXpoQ"
)
RS256_D: Final = (
    "Eq5xpGnNCivDflJsRQBXHx1hdR1k6Ulwe2JZD50LpXyWPEAeP88vLNO97IjlA7_GQ5sLKMgvfTeXZx9SE-7YwVol2NXOoAJe46sui395IW_GO-pWJ1O0"
    "BkTGoVEn2bKVRUCgu-GjBVaYLU6f3l9kJfFNS3E0QbVdxzubSu3Mkqzjkn439X0M_V51gfpRLI9JYanrC4D4qAdGcopV_0ZHHzQlBjudU2QvXt4ehNYT"
    "CBr6XCLQUShb1juUO1ZdiYoFaFQT5Tw8bGUl_x_jTj3ccPDVZFD9pIuhLhBOneufuBiB4cS98l2SR_RQyGWSeWjnczT0QU91p1DhOVRuOopznQ"
)
RS256_SIGNATURE: Final = (
    "cC4hiUPoj9Eetdgtv3hF80EGrhuB__dzERat0XF9g2VtQgr9PJbu3XOiZj5RZmh7AAuHIm4Bh-0Qc_lF5YKt_O8W2Fp5jujGbds9uJdbF9CUAr7t1dnZ"
    "cAcQjbKBYNX4BAynRFdiuB--f_nZLgrnbyTyWzO75vRK5h6xBArLIARNPvkSjtQBMHlb1L07Qe7K0GarZRmB_eSN9383LcOLn6_dO--xi12jzDwusC-e"
    "OkHWEsqtFZESc6BfI7noOPqvhJ1phCnvWh6IeYI2w9QOYEUipUTI8np6LbgGY9Fs98rqVt5AXLIhWkWywlVmtVrBp0igcN_IoypGlUPQGe77Rw"
)
ES256_D: Final = "jpsQnnGQmL-YBIffH1136cspYG6-0iY7X1fCE9-E9LI"
ES256_SIGNATURE: Final = "DtEhU3ljbEg8L38VWAfUAqOyKAM6-Xx-F4GawxaepmXFCgfTjDxw5djxLa8ISlSApmWQxfKTUJqPP3-Kg6NU1Q"
# cspell:enable


def decoded(text: str) -> bytes:
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))


def number(text: str) -> int:
    return int.from_bytes(decoded(text), "big")


def pem(key: PrivateKeyTypes, password: str | None = None) -> bytes:
    encryption: serialization.KeySerializationEncryption = serialization.NoEncryption()
    if password is not None:
        encryption = serialization.BestAvailableEncryption(password.encode())
    return key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, encryption)


def rsa_key() -> rsa.RSAPrivateKey:
    n, e, d = number(RS256_N), 65537, number(RS256_D)
    p, q = rsa.rsa_recover_prime_factors(n, e, d)
    numbers = rsa.RSAPrivateNumbers(
        p, q, d, rsa.rsa_crt_dmp1(d, p), rsa.rsa_crt_dmq1(d, q), rsa.rsa_crt_iqmp(p, q), rsa.RSAPublicNumbers(e, n)
    )
    return numbers.private_key()


def ec_key() -> ec.EllipticCurvePrivateKey:
    return ec.derive_private_key(number(ES256_D), ec.SECP256R1())


def verify_es256(content: bytes, given: bytes) -> None:
    parts = encode_dss_signature(int.from_bytes(given[:32], "big"), int.from_bytes(given[32:], "big"))
    ec_key().public_key().verify(parts, content, ec.ECDSA(hashes.SHA256()))


def test_the_vector_of_rs256() -> None:
    """RFC 7515, appendix A.2."""
    content = f"eyJhbGciOiJSUzI1NiJ9.{PAYLOAD}".encode()
    assert signature(content, "RS256", pem(rsa_key()), None) == decoded(RS256_SIGNATURE)


def test_the_vector_of_es256() -> None:
    """RFC 7515, appendix A.3: each signature is another one, so ours is verified, as the published one is."""
    content = f"eyJhbGciOiJFUzI1NiJ9.{PAYLOAD}".encode()
    verify_es256(content, decoded(ES256_SIGNATURE))
    for _ in range(50):  # One number in 256 begins with a zero byte, which has to be there.
        ours = signature(content, "ES256", pem(ec_key()), None)
        assert len(ours) == 64
        verify_es256(content, ours)
    with pytest.raises(InvalidSignature):
        verify_es256(content + b"x", signature(content, "ES256", pem(ec_key()), None))


def config(**claims: Any) -> ClientConfig:
    given = {f"sasl_oauthbearer_assertion_{name}": value for name, value in claims.items()}
    return ClientConfig.from_options(
        bootstrap_servers="localhost:9092",
        security_protocol="SASL_SSL",
        sasl_mechanism="OAUTHBEARER",
        sasl_oauthbearer_token_endpoint_url="https://idp/token",
        sasl_oauthbearer_assertion_private_key_file="key.pem",
        **given,
    )


def test_what_an_assertion_says() -> None:
    given = config(claim_iss="us", claim_aud="them", claim_jti_include=True, algorithm="ES256")
    template = {"kid": "k1", "alg": "none"}, {"aud": ["other"], "tenant": 3, "exp": 1}
    header, claims = assertion_fields(given, template, 1000.9, "id-1")
    assert header == {"kid": "k1", "alg": "ES256", "typ": "JWT"}
    assert claims == {
        "iss": "us", "aud": ["other"], "tenant": 3, "iat": 1000, "exp": 1300, "nbf": 940, "jti": "id-1"
    }  # fmt: skip
    _, claims = assertion_fields(config(claim_exp_seconds=9, claim_nbf_seconds=0), ({}, {}), 1000.0, "id-1")
    assert claims == {"iat": 1000, "exp": 1009, "nbf": 1000}


def test_a_signed_jwt() -> None:
    jwt = signed_jwt(({"alg": "ES256"}, {"iss": "wé"}), "ES256", pem(ec_key(), "open sesame"), "open sesame")
    content, _, signed = jwt.rpartition(".")
    verify_es256(content.encode(), decoded(signed))
    assert [json.loads(decoded(part)) for part in content.split(".")] == [{"alg": "ES256"}, {"iss": "wé"}]


@pytest.mark.parametrize(
    ("key", "algorithm", "password", "message"),
    [
        (pem(ec_key()), "RS256", None, r"not one for .*=RS256\. Hint: RS256 needs an RSA key"),
        (pem(rsa_key()), "ES256", None, "not one for .*=ES256"),
        (pem(ec.generate_private_key(ec.SECP384R1())), "ES256", None, "not one for .*=ES256"),
        (pem(ec_key(), "hunter2"), "ES256", None, "is encrypted"),
        (pem(ec_key()), "ES256", "hunter2", "is not encrypted, but a passphrase is given"),
        (pem(ec_key(), "other"), "ES256", "hunter2", "can't be read, or the passphrase is not its own"),
        (b"hunter2", "RS256", None, r"can't be read\. Hint: It has to be PEM"),
    ],
)
def test_keys_that_can_not_sign(key: bytes, algorithm: str, password: str | None, message: str) -> None:
    with pytest.raises(ConfigError, match=message) as caught:
        signature(b"content", algorithm, key, password)
    assert "private.key.file" in str(caught.value)
    assert "hunter2" not in str(caught.value)


def test_without_cryptography(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "cryptography.exceptions", None)
    with pytest.raises(ConfigError, match=r"needs the package cryptography\. Hint: .*'aioprod\[oidc\]'"):
        signature(b"content", "RS256", b"key", None)


def test_a_template() -> None:
    assert template_in(b'{"header": {"kid": 1}}', "x") == ({"kid": 1}, {})


@pytest.mark.parametrize("content", [b"", b"[]", b"3", b'{"header": 3}', b'{"payload": null}', b"[" * 100_000, b"\xff"])
def test_what_is_no_template(content: bytes) -> None:
    with pytest.raises(ConfigError, match=r"^the\.file is not a template"):
        template_in(content, "the.file")

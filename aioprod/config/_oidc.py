"""The settings of tokens from an endpoint or a file, by Java's names (KIP-768, KIP-1139, KIP-1258)."""

from __future__ import annotations

import re
from typing import Final

from aioprod.config._base import Settings
from aioprod.config._setting import LOW, MEDIUM, boolean, choice, integer, optional_integer, optional_text

__all__ = ["MSK_TOKEN_HANDLER", "OidcConfig"]

_JAVA: Final = "org.apache.kafka.common.security.oauthbearer"
_MSK: Final = "software.amazon.msk.auth.iam"
MSK_TOKEN_HANDLER: Final = f"{_MSK}.IAMOAuthBearerLoginCallbackHandler"


def _without_query(given: object) -> str:
    """A URL as messages may show it: some endpoints want a secret in the query."""
    if isinstance(given, str):
        return repr(re.sub(r"[?#].*", "?[hidden]", given, flags=re.DOTALL))
    return "None" if given is None else "[hidden]"


class OidcConfig(Settings):
    """Where tokens for OAUTHBEARER come from, if not from a function of the user."""

    sasl_oauthbearer_token_endpoint_url: str | None = optional_text(
        importance=MEDIUM,
        shown=_without_query,
        doc="Where tokens come from: the https URL of an endpoint, or the file: URL of a token, read when needed.",
    )
    sasl_oauthbearer_client_credentials_client_id: str | None = optional_text(
        importance=MEDIUM, doc="The client's id at the token endpoint. `clientId` in sasl.jaas.config is the same."
    )
    sasl_oauthbearer_client_credentials_client_secret: str | None = optional_text(
        importance=MEDIUM, secret=True, doc="Its secret. `clientSecret` in sasl.jaas.config is the same."
    )
    sasl_oauthbearer_scope: str | None = optional_text(
        importance=MEDIUM, doc="The scope of the token. `scope` in sasl.jaas.config is the same."
    )
    sasl_oauthbearer_header_urlencode: bool = boolean(
        False, importance=LOW, doc="Encode id and secret as RFC 6749 2.3.1 says, for endpoints that insist on it."
    )
    sasl_oauthbearer_jwt_retriever_class: str | None = choice(
        None,
        [f"{_JAVA}.{name}JwtRetriever" for name in ("Default", "ClientCredentials", "JwtBearer", "File")],
        importance=LOW,
        doc="Java's way to choose how tokens are got. JwtBearerJwtRetriever: by an assertion alone (RFC 7523 2.1).",
    )
    sasl_oauthbearer_assertion_file: str | None = optional_text(
        importance=LOW, doc="A file with an assertion, a signed JWT that identifies the client, in place of a secret."
    )
    sasl_oauthbearer_assertion_private_key_file: str | None = optional_text(
        importance=LOW, doc="A file with the private key (PEM) by which assertions are signed, if they are made here."
    )
    sasl_oauthbearer_assertion_private_key_passphrase: str | None = optional_text(
        importance=LOW, secret=True, doc="The password of that key, if it is encrypted."
    )
    sasl_oauthbearer_assertion_algorithm: str = choice(
        "RS256", ["RS256", "ES256"], importance=LOW, doc="How assertions are signed."
    )
    sasl_oauthbearer_assertion_template_file: str | None = optional_text(
        importance=LOW, doc='A JSON file with further fields of assertions: {"header": {...}, "payload": {...}}.'
    )
    sasl_oauthbearer_assertion_claim_iss: str | None = optional_text(
        importance=LOW, doc="The issuer of the assertion. Given: assertions are made, in place of a secret."
    )
    sasl_oauthbearer_assertion_claim_sub: str | None = optional_text(
        importance=LOW, doc="The subject of the assertion, most often the client's id."
    )
    sasl_oauthbearer_assertion_claim_aud: str | None = optional_text(
        importance=LOW, doc="The audience of the assertion, most often the token endpoint."
    )
    sasl_oauthbearer_assertion_claim_exp_seconds: int = integer(
        300, at_most=86_400, importance=LOW, doc="How long an assertion holds."
    )
    sasl_oauthbearer_assertion_claim_nbf_seconds: int = integer(
        60, at_most=3600, importance=LOW, doc="How long before it was made an assertion begins to hold."
    )
    sasl_oauthbearer_assertion_claim_jti_include: bool = boolean(
        False, importance=LOW, doc="Give each assertion an id of its own."
    )
    sasl_login_callback_handler_class: str | None = choice(
        None,
        [
            f"{_JAVA}.OAuthBearerLoginCallbackHandler",
            f"{_JAVA}.secured.OAuthBearerLoginCallbackHandler",
            MSK_TOKEN_HANDLER,
        ],
        importance=LOW,
        doc="Java's class that gets tokens: from the token endpoint, or by signing with AWS credentials (Amazon MSK).",
    )
    sasl_client_callback_handler_class: str | None = choice(
        None,
        [f"{_MSK}.IAMClientCallbackHandler", MSK_TOKEN_HANDLER],
        importance=LOW,
        doc="Java's files for Amazon MSK have to name it; it says nothing that the mechanism does not say.",
    )
    sasl_login_connect_timeout_ms: int | None = optional_integer(
        importance=LOW, doc="How long a connection to the token endpoint may take. None: as long as the log-in may."
    )
    sasl_login_read_timeout_ms: int | None = optional_integer(
        importance=LOW, doc="How long the token endpoint may be silent. None: until `request.timeout.ms` are over."
    )
    sasl_login_retry_backoff_ms: int = integer(
        100, importance=LOW, doc="The wait before a request to the token endpoint is retried. Doubled each time."
    )
    sasl_login_retry_backoff_max_ms: int = integer(
        10_000, importance=LOW, doc="How long requests to the token endpoint are retried in all."
    )

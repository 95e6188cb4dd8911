"""The source of tokens that the settings of OIDC describe together: a file, or an endpoint and its grant."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Final
from urllib.parse import SplitResult, unquote, urlsplit

from aioprod.config._base import settings_of
from aioprod.config._oidc import OidcConfig
from aioprod.config._secrets import secret_of
from aioprod.config._setting import dotted
from aioprod.errors import ConfigError

if TYPE_CHECKING:
    from aioprod.config._jaas import JaasEntry

__all__ = ["Grant", "TokenEndpoint", "TokenFile", "path_of", "token_source_of"]

_URL: Final = "sasl.oauthbearer.token.endpoint.url"
_CREDENTIALS: Final = "sasl.oauthbearer.client.credentials"
_EXTENSION: Final = "extension_"
_FOR_FILES: Final = {
    "sasl_oauthbearer_token_endpoint_url",
    "sasl_oauthbearer_jwt_retriever_class",
    "sasl_login_callback_handler_class",
}
"""The settings of OIDC that a file with a token has a use for."""


class Grant(Enum):
    """What a request to a token endpoint contains; the value is its name in words."""

    CLIENT_SECRET = "client credentials, with a secret"  # noqa: S105 - a description
    """KIP-768, RFC 6749 4.4."""
    CLIENT_ASSERTION = "client credentials, with an assertion"
    """KIP-1258, RFC 7523 2.2."""
    JWT_BEARER = "an assertion alone"
    """KIP-1139, RFC 7523 2.1."""


@dataclass(frozen=True, slots=True, repr=False)
class TokenFile:
    """Log-ins by a token in a file."""

    path: str
    extensions: Mapping[str, str]
    """Sent along with the token (KIP-342)."""


@dataclass(frozen=True, slots=True, repr=False)
class TokenEndpoint:
    """Log-ins by tokens of an endpoint."""

    url: str
    grant: Grant
    client_id: str
    client_secret: str
    scope: str
    tls: Mapping[str, str]
    """The `ssl.*` options of the JAAS entry, which are for the endpoint."""
    extensions: Mapping[str, str]

    @property
    def shown(self) -> str:
        """The URL as messages may show it: without a query."""
        return _shown(urlsplit(self.url))


def token_source_of(config: OidcConfig, entry: JaasEntry | None) -> TokenFile | TokenEndpoint:
    """The source of tokens; looks up the secret. Raises ConfigError for missing or contradictory settings."""
    given = config.sasl_oauthbearer_token_endpoint_url or ""
    url = _url(given)
    options = dict(entry.options) if entry is not None else {}
    extensions = {
        name.removeprefix(_EXTENSION): options.pop(name) for name in tuple(options) if name.startswith(_EXTENSION)
    }
    retriever = (config.sasl_oauthbearer_jwt_retriever_class or "").rpartition(".")[2].removesuffix("JwtRetriever")
    if (retriever == "File") != (url.scheme == "file") and retriever not in ("", "Default"):
        raise ConfigError(
            f"sasl.oauthbearer.jwt.retriever.class={config.sasl_oauthbearer_jwt_retriever_class} "
            f"is not for {_URL}={_shown(url)}.",
            hint="Leave it out: the URL says whether a file or an endpoint is meant.",
        )
    if url.scheme == "file":
        unused = _given(config) - _FOR_FILES
        if unused or options:
            raise ConfigError(f"{min([*map(dotted, unused), *options])} has no use with a token in a file.")
        return TokenFile(path_of(_URL, given), extensions)
    tls = {name: options.pop(name) for name in tuple(options) if name.startswith("ssl.")}
    if tls and url.scheme == "http":
        raise ConfigError(f"{min(tls)} in sasl.jaas.config has no use with {_URL}={_shown(url)}.")
    client_id = _either(config, "sasl_oauthbearer_client_credentials_client_id", options, "clientId")
    secret = _either(config, "sasl_oauthbearer_client_credentials_client_secret", options, "clientSecret")
    scope = _either(config, "sasl_oauthbearer_scope", options, "scope")
    if options:
        raise ConfigError(f"sasl.jaas.config has the option {min(options)!r}, which has no use with {_URL}.")
    grant = _grant(config, retriever, client_id, secret)
    return TokenEndpoint(given, grant, client_id, secret, scope, tls, extensions)


def path_of(setting: str, location: str) -> str:
    """The path of a file that is given by path or by file: URL; raises ConfigError for a file of another host."""
    if not location.lower().startswith("file:"):
        return location
    url = urlsplit(location)
    if url.netloc.lower() not in ("", "localhost") or not url.path.startswith("/"):
        shown = location.partition("?")[0]
        raise ConfigError(f"{setting}={shown!r} names no file.", hint="Write it as file:///path/to/the/file.")
    return unquote(url.path)


def _url(given: str) -> SplitResult:
    hint = "It is an https URL, or file:///path/to/a/token."
    try:
        url = urlsplit(given)
        _ = url.port
    except ValueError:
        raise ConfigError(f"{_URL} is malformed.", hint=hint) from None
    if url.username is not None or url.password is not None:
        raise ConfigError(
            f"{_URL} contains a user or a password.", hint=f"Set {_CREDENTIALS}.client.id and .client.secret."
        )
    if url.scheme not in ("https", "http", "file") or (url.scheme != "file" and not url.hostname):
        raise ConfigError(f"{_URL}={_shown(url)} is not a source of tokens.", hint=hint)
    return url


def _shown(url: SplitResult) -> str:
    return url._replace(query="", fragment="").geturl()


def _given(config: OidcConfig) -> set[str]:
    """The settings of this kind that were given another value than the default one."""
    table = settings_of(OidcConfig)
    return {name for name in config.explicit & table.keys() if getattr(config, name) != table[name].default}


def _either(config: OidcConfig, setting: str, options: dict[str, str], name: str) -> str:
    """A value that a setting is or names, or an option of the JAAS entry, without white space; empty if it is none."""
    given, option = getattr(config, setting), options.pop(name, None)
    if given is not None and option is not None:
        raise ConfigError(
            f"The option {name} in sasl.jaas.config is given beside the setting for it.", hint="Give one."
        )
    found = option if given is None else secret_of(dotted(setting), given)
    return (found or "").strip()


def _grant(config: OidcConfig, retriever: str, client_id: str, secret: str) -> Grant:
    made = [config.sasl_oauthbearer_assertion_private_key_file, config.sasl_oauthbearer_assertion_claim_iss]
    has_assertion = config.sasl_oauthbearer_assertion_file is not None or any(made)
    if config.sasl_oauthbearer_assertion_file is not None and any(made):
        raise ConfigError("sasl.oauthbearer.assertion.file is given beside settings for making one.", hint="Give one.")
    if any(made) and made[0] is None:
        raise ConfigError(
            "sasl.oauthbearer.assertion.claim.iss needs sasl.oauthbearer.assertion.private.key.file to sign with."
        )
    if has_assertion and secret:
        raise ConfigError("A client secret and an assertion are both given for the token endpoint.", hint="Give one.")
    _check_unused(config, has_secret=bool(secret))
    if retriever == "JwtBearer":
        if not has_assertion:
            raise ConfigError(
                "sasl.oauthbearer.jwt.retriever.class=JwtBearerJwtRetriever needs an assertion.",
                hint="Set sasl.oauthbearer.assertion.file, or sasl.oauthbearer.assertion.private.key.file to make one.",
            )
        return Grant.JWT_BEARER
    if has_assertion:
        return Grant.CLIENT_ASSERTION
    for name, value in (("id", client_id), ("secret", secret)):
        if not value:
            raise ConfigError(
                f"{_URL} needs {_CREDENTIALS}.client.{name}.", hint="Or an assertion: sasl.oauthbearer.assertion.*."
            )
    return Grant.CLIENT_SECRET


def _check_unused(config: OidcConfig, *, has_secret: bool) -> None:
    """Raise ConfigError for settings that change nothing in the requests to the endpoint."""
    unused = {name for name in _given(config) if name.startswith("sasl_oauthbearer_assertion_")}
    beside = "a client secret"
    if not has_secret:
        unused |= _given(config) & {"sasl_oauthbearer_header_urlencode"}
        beside = "an assertion"
        if config.sasl_oauthbearer_assertion_private_key_file is not None:
            unused &= {"sasl_oauthbearer_header_urlencode"}
        elif config.sasl_oauthbearer_assertion_file is not None:
            unused -= {"sasl_oauthbearer_assertion_file"}
            beside = "sasl.oauthbearer.assertion.file"
        else:
            return  # Neither secret nor assertion is given, which the caller reports.
    if unused:
        raise ConfigError(f"{dotted(min(unused))} has no use beside {beside}.", hint="Leave it out.")

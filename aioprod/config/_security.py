"""The settings of TLS and of log-ins, by Java's names, and the credentials that they describe together."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from aioprod.config._base import settings_of
from aioprod.config._oidc import MSK_TOKEN_HANDLER, OidcConfig
from aioprod.config._setting import (
    LOW,
    MEDIUM,
    choice,
    decimal,
    dotted,
    given_object,
    instance,
    integer,
    optional_text,
    words,
)
from aioprod.errors import ConfigError

if TYPE_CHECKING:
    from aioprod.config._aws import AwsIdentity
    from aioprod.config._jaas import JaasEntry
    from aioprod.config._kerberos import KerberosIdentity
    from aioprod.config._token_source import TokenEndpoint, TokenFile

__all__ = [
    "Password",
    "SecurityConfig",
    "Tokens",
    "check_security",
    "credentials_of",
    "has_login",
    "has_tls",
]

_PROTOCOLS: Final = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
_MECHANISMS: Final = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER", "AWS_MSK_IAM", "GSSAPI")
_STORE_TYPES: Final = ("PEM", "PKCS12", "JKS")
_TLS_VERSIONS: Final = ("TLSv1.2", "TLSv1.3")
_MODULES: Final = {
    "PlainLoginModule": ("PLAIN",),
    "ScramLoginModule": ("SCRAM-SHA-256", "SCRAM-SHA-512"),
    "OAuthBearerLoginModule": ("OAUTHBEARER",),
    "IAMLoginModule": ("AWS_MSK_IAM",),
    "Krb5LoginModule": ("GSSAPI",),
}
"""Java's log-in modules -> the mechanisms that they are for."""
_OPTIONS: Final = {
    "PlainLoginModule": {"username", "password"},
    "ScramLoginModule": {"username", "password", "tokenauth"},
}
"""Java's modules that take a password -> all their options."""
_REFRESH: Final = (
    "sasl_login_refresh_window_factor",
    "sasl_login_refresh_window_jitter",
    "sasl_login_refresh_min_period_seconds",
    "sasl_login_refresh_buffer_seconds",
)
"""The settings of when tokens are fetched, wherever they come from."""
_FOR_SOME: Final = ("sasl_username", "sasl_password", "sasl_token_provider", "sasl_kerberos_service_name", *_REFRESH)
"""Settings that not all mechanisms use, beside those of OIDC."""


def _ssl_context(given: Any) -> object:
    # An ssl.SSLContext has this method; nothing below net/ imports ssl.
    if callable(given) or callable(getattr(given, "wrap_bio", None)):
        return given
    raise ValueError("none")


class SecurityConfig(OidcConfig):
    """The settings for brokers that require TLS or a log-in."""

    security_protocol: str = choice(
        "PLAINTEXT",
        _PROTOCOLS,
        importance=MEDIUM,
        doc="How to talk to the brokers: in the clear or encrypted (SSL), with or without a log-in (SASL).",
    )
    ssl_context: Any = given_object(
        _ssl_context,
        "an ssl.SSLContext, or a function that makes one",
        "SSLContext | Callable[[], SSLContext] | None",
        importance=MEDIUM,
        doc="TLS as Python describes it, in place of all `ssl.*` settings. A function is called for each connection.",
    )
    ssl_truststore_location: str | None = optional_text(
        importance=MEDIUM, doc="The file with the CAs that brokers' certificates must come from. None: the system's."
    )
    ssl_truststore_certificates: str | None = optional_text(
        importance=MEDIUM, doc="The same CAs as PEM text, in place of a file."
    )
    ssl_truststore_type: str | None = choice(
        None, _STORE_TYPES, importance=LOW, doc="The format of the trust store's file. None: what its first bytes say."
    )
    ssl_truststore_password: str | None = optional_text(
        importance=MEDIUM, secret=True, doc="The password of a PKCS12 trust store; for a JKS one it may be left out."
    )
    ssl_keystore_location: str | None = optional_text(
        importance=MEDIUM, doc="The file with our own private key and certificate chain, in any order (mTLS)."
    )
    ssl_keystore_key: str | None = optional_text(
        importance=MEDIUM, secret=True, doc="Our private key as PEM text, in place of a file."
    )
    ssl_keystore_certificate_chain: str | None = optional_text(
        importance=MEDIUM, doc="Our certificate chain as PEM text, our own certificate first; with the key as text."
    )
    ssl_keystore_type: str | None = choice(
        None, _STORE_TYPES, importance=LOW, doc="The format of the key store's file. None: what its first bytes say."
    )
    ssl_keystore_password: str | None = optional_text(
        importance=MEDIUM, secret=True, doc="The password of a PKCS12 key store; without it, `ssl.key.password`."
    )
    ssl_key_password: str | None = optional_text(
        importance=MEDIUM, secret=True, doc="The password of our private key, if it is encrypted."
    )
    ssl_protocol: str = choice(
        "TLSv1.3", _TLS_VERSIONS, importance=LOW, doc="The newest version of TLS that is offered."
    )
    ssl_enabled_protocols: tuple[str, ...] = words(
        _TLS_VERSIONS, _TLS_VERSIONS, importance=LOW, doc="The versions of TLS that are offered."
    )
    ssl_cipher_suites: tuple[str, ...] = words(
        (), importance=LOW, doc="The cipher suites for TLS 1.2, in OpenSSL's names. None: OpenSSL's choice."
    )
    ssl_endpoint_identification_algorithm: str = choice(
        "https",
        ["https", "none", ""],
        importance=LOW,
        doc="https: a broker's certificate must be for the host that we connect to. none or empty: for any host.",
    )
    sasl_mechanism: str | None = choice(
        None,
        _MECHANISMS,
        alias="sasl_mechanisms",
        importance=MEDIUM,
        doc="How to log in. Needed with SASL_PLAINTEXT and SASL_SSL.",
    )
    sasl_username: str | None = optional_text(importance=MEDIUM, doc="The user's name, for PLAIN and SCRAM.")
    sasl_password: str | None = optional_text(
        importance=MEDIUM, secret=True, doc="The user's password. `env:NAME` and `file:PATH` name where it is."
    )
    sasl_jaas_config: str | None = optional_text(
        importance=MEDIUM,
        secret=True,
        doc="Java's form of user name and password: a log-in module with its options.",
    )
    sasl_token_provider: Any = instance(
        "token provider",
        importance=MEDIUM,
        doc="For OAUTHBEARER: a function, or one that is a coroutine, that gives an `aioprod.OAuthToken`.",
    )
    sasl_kerberos_service_name: str | None = optional_text(
        importance=MEDIUM, doc="For GSSAPI: the first part of the brokers' principal, most often kafka."
    )
    sasl_login_refresh_window_factor: float = decimal(
        0.8, 0.5, 1.0, importance=LOW, doc="The part of a token's lifetime after which the next one is fetched."
    )
    sasl_login_refresh_window_jitter: float = decimal(
        0.05, 0.0, 0.25, importance=LOW, doc="The part of its lifetime that is added to that by chance, at most."
    )
    sasl_login_refresh_min_period_seconds: int = integer(
        60, at_most=900, importance=LOW, doc="A token is kept for at least so long, where its lifetime allows it."
    )
    sasl_login_refresh_buffer_seconds: int = integer(
        300, at_most=3600, importance=LOW, doc="A token is replaced at least so long before its end, where it can be."
    )

    def _adjustments(self) -> Mapping[str, object]:
        check_security(self)
        return {}


@dataclass(frozen=True, slots=True, repr=False)
class Password:
    """A log-in by name and password."""

    mechanism: str
    username: str
    password: str
    is_token: bool = False
    """They are id and HMAC of a delegation token."""


@dataclass(frozen=True, slots=True, repr=False)
class Tokens:
    """Log-ins by tokens that a provider gives: a function, or a name as `load_class` takes it."""

    provider: Callable[[], Any] | str


if TYPE_CHECKING:
    Credentials: TypeAlias = Password | Tokens | TokenFile | TokenEndpoint | AwsIdentity | KerberosIdentity


def has_tls(config: SecurityConfig) -> bool:
    """Whether connections are encrypted."""
    return config.security_protocol in ("SSL", "SASL_SSL")


def has_login(config: SecurityConfig) -> bool:
    """Whether brokers require a log-in."""
    return config.security_protocol.startswith("SASL_")


def check_security(config: SecurityConfig) -> None:
    """Raise ConfigError for settings of TLS and log-in that contradict each other, or that lack something."""
    _check_tls(config)
    _check_login(config)


def credentials_of(config: SecurityConfig) -> Credentials:
    """The credentials of the log-in; looks up secrets that are named. Raises ConfigError for missing settings."""
    entry = _jaas(config)
    mechanism = config.sasl_mechanism or _mechanism_of(entry)
    if mechanism is None:
        raise ConfigError(
            f"security.protocol={config.security_protocol} needs sasl.mechanism.",
            hint=f"It is one of {', '.join(_MECHANISMS)}: the operators of the brokers know which.",
        )
    if entry is not None and mechanism not in _MODULES[entry.module]:
        raise ConfigError(f"sasl.jaas.config has the {entry.module}, which is not for sasl.mechanism={mechanism}.")
    if mechanism == "OAUTHBEARER":
        return _tokens(config, entry)
    if mechanism == "AWS_MSK_IAM":
        from aioprod.config._aws import aws_identity_of  # Only with such a log-in.

        return aws_identity_of("AWS_MSK_IAM", entry)
    if mechanism == "GSSAPI":
        from aioprod.config._kerberos import kerberos_identity_of  # Only with such a log-in.

        return kerberos_identity_of(config.sasl_kerberos_service_name, entry)
    return _password(config, mechanism, entry)


def _tokens(config: SecurityConfig, entry: JaasEntry | None) -> Tokens | TokenFile | TokenEndpoint | AwsIdentity:
    if config.sasl_token_provider is not None:
        if entry is not None and entry.options:
            name = min(entry.options)
            raise ConfigError(
                f"sasl.jaas.config has the option {name!r}, which has no use beside sasl_token_provider.",
                hint="Leave it out; an aioprod.OAuthToken has its extensions with it.",
            )
        return Tokens(config.sasl_token_provider)
    if config.sasl_login_callback_handler_class == MSK_TOKEN_HANDLER:
        from aioprod.config._aws import aws_identity_of  # Only with such a log-in.

        return aws_identity_of("OAUTHBEARER", entry)
    if config.sasl_oauthbearer_token_endpoint_url is None:
        raise ConfigError(
            "sasl.mechanism=OAUTHBEARER needs sasl_token_provider, or sasl.oauthbearer.token.endpoint.url.",
            hint="Give a function that returns an aioprod.OAuthToken, or the URL where tokens come from.",
        )
    from aioprod.config._token_source import token_source_of  # Only with such a log-in.

    return token_source_of(config, entry)


def _password(config: SecurityConfig, mechanism: str, entry: JaasEntry | None) -> Password:
    from aioprod.config._secrets import secret_of  # Only with a log-in.

    given = {"username": config.sasl_username, "password": config.sasl_password}
    if entry is not None:
        where = "sasl.jaas.config"
        unknown = entry.options.keys() - _OPTIONS[entry.module]
        if unknown:
            raise ConfigError(
                f"sasl.jaas.config has the option {min(unknown)!r}, which the {entry.module} does not have.",
                hint=f"It has {', '.join(sorted(_OPTIONS[entry.module]))}.",
            )
        found = {name: entry.options[name] for name in given if name in entry.options}
    else:
        where = f"sasl.mechanism={mechanism}"
        found = {name: secret_of(f"sasl.{name}", value) for name, value in given.items() if value is not None}
    for name in given:
        if not found.get(name):
            raise ConfigError(
                f"{where} needs a {name}." if entry is None else f"{where} has no {name}.",
                hint="Set sasl.username and sasl.password." if entry is None else None,
            )
        if "\0" in found[name]:
            raise ConfigError(f"The {name} of the log-in contains a NUL character, which can't be sent.")
    is_token = entry is not None and entry.options.get("tokenauth", "").lower() == "true"
    return Password(mechanism, found["username"], found["password"], is_token)


def _jaas(config: SecurityConfig) -> JaasEntry | None:
    if config.sasl_jaas_config is None:
        return None
    from aioprod.config._jaas import parse_jaas  # Only with a log-in.
    from aioprod.config._secrets import is_elsewhere, secret_of

    setting, text = "sasl.jaas.config", config.sasl_jaas_config
    # Secrets in it are looked up behind the parser: what is in them is neither syntax nor one more name.
    entry = parse_jaas(secret_of(setting, text) if is_elsewhere(text) else text)
    if entry.module not in _MODULES:
        raise ConfigError(
            f"sasl.jaas.config names the log-in module {entry.module[:80]!r}, which aioprod does not have.",
            hint=f"It has {', '.join(_MODULES)}.",
        )
    table = settings_of(type(config))
    # Secrets of TLS are looked up when the context for the token endpoint is made.
    later = {dotted(name) for name, row in table.items() if row.secret and name.startswith("ssl_")}
    found = {name: value if name in later else secret_of(setting, value) for name, value in entry.options.items()}
    return replace(entry, options=found)


def _mechanism_of(entry: JaasEntry | None) -> str | None:
    fitting = () if entry is None else _MODULES[entry.module]
    return fitting[0] if len(fitting) == 1 else None


def _given(config: SecurityConfig, prefix: str) -> list[str]:
    """The settings that were given, by Java's names; one that was given its default changes nothing."""
    table = settings_of(type(config))
    return sorted(
        dotted(name)
        for name in config.explicit
        if name.startswith(prefix) and getattr(config, name) != table[name].default
    )


def _check_tls(config: SecurityConfig) -> None:
    given = _given(config, "ssl_")
    if given and not has_tls(config):
        raise ConfigError(
            f"{given[0]} is given, but security.protocol={config.security_protocol} does not encrypt.",
            hint=f"Set security.protocol={'SASL_SSL' if has_login(config) else 'SSL'}.",
        )
    if config.ssl_context is not None and given != ["ssl.context"]:
        other = next(name for name in given if name != "ssl.context")
        raise ConfigError(
            f"ssl_context and {other} are both given.", hint="Give one: the context has all of TLS in it."
        )
    _exclude(config, "ssl_truststore_location", "ssl_truststore_certificates")
    _exclude(config, "ssl_keystore_location", "ssl_keystore_key")
    _exclude(config, "ssl_keystore_location", "ssl_keystore_certificate_chain")
    key, chain = "ssl_keystore_key", "ssl_keystore_certificate_chain"
    for one, other in ((key, chain), (chain, key)):
        if getattr(config, one) is not None and getattr(config, other) is None:
            raise ConfigError(
                f"{dotted(one)} is given without {dotted(other)}.", hint="Give both, or a file with both."
            )
    _check_store(config, "truststore", "ssl_truststore_certificates")
    _check_store(config, "keystore", "ssl_keystore_key")
    if config.ssl_key_password is not None and config.ssl_keystore_location is None and config.ssl_keystore_key is None:
        raise ConfigError("ssl.key.password is given without a private key.", hint="Set ssl.keystore.location.")
    if not set(config.ssl_enabled_protocols) - (set() if config.ssl_protocol == "TLSv1.3" else {"TLSv1.3"}):
        raise ConfigError(f"ssl.protocol={config.ssl_protocol} allows none of the ssl.enabled.protocols.")


def _check_store(config: SecurityConfig, store: str, inline: str) -> None:
    """Raise ConfigError for a password of a PEM store, and for PEM text with another store type, as Java does."""
    kind = getattr(config, f"ssl_{store}_type")
    if getattr(config, f"ssl_{store}_password") is not None:
        if kind == "PEM" or getattr(config, inline) is not None:
            raise ConfigError(
                f"ssl.{store}.password is given, but PEM has no password of the store.",
                hint="That of an encrypted key is ssl.key.password.",
            )
        if getattr(config, f"ssl_{store}_location") is None:
            raise ConfigError(f"ssl.{store}.password is given without ssl.{store}.location.", hint="Give both.")
    if getattr(config, inline) is not None and kind not in (None, "PEM"):
        raise ConfigError(f"{dotted(inline)} is PEM, but ssl.{store}.type={kind}.", hint="Leave the type out.")


def _exclude(config: SecurityConfig, one: str, other: str) -> None:
    if getattr(config, one) is not None and getattr(config, other) is not None:
        raise ConfigError(f"{dotted(one)} and {dotted(other)} are both given.", hint="Give one.")


def _check_login(config: SecurityConfig) -> None:
    given = _given(config, "sasl_")
    if not has_login(config):
        if given:
            raise ConfigError(
                f"{given[0]} is given, but security.protocol={config.security_protocol} has no log-in.",
                hint=f"Set security.protocol={'SASL_SSL' if has_tls(config) else 'SASL_PLAINTEXT or SASL_SSL'}.",
            )
        return
    for other in ("sasl_username", "sasl_password"):
        _exclude(config, "sasl_jaas_config", other)
    credentials = credentials_of(config)
    used = _used(credentials)
    table = settings_of(type(config))
    mechanism = config.sasl_mechanism or _mechanism_of(_jaas(config))
    for name in (*_FOR_SOME, *settings_of(OidcConfig)):
        if name not in used and getattr(config, name) != table[name].default:
            beside = " and sasl_token_provider" if isinstance(credentials, Tokens) else ""
            raise ConfigError(
                f"{dotted(name)} has no use with sasl.mechanism={mechanism}{beside}.", hint="Leave it out."
            )


def _used(credentials: Credentials) -> Collection[str]:
    """The settings of identities that these credentials are made of, or that may be given beside them."""
    if isinstance(credentials, Password):
        return ("sasl_username", "sasl_password")
    if isinstance(credentials, Tokens):
        return ("sasl_token_provider", *_REFRESH)
    from aioprod.config._aws import AwsIdentity
    from aioprod.config._kerberos import KerberosIdentity

    if isinstance(credentials, KerberosIdentity):
        return ("sasl_kerberos_service_name",)
    if isinstance(credentials, AwsIdentity):
        handlers = ("sasl_client_callback_handler_class", "sasl_login_callback_handler_class")
        return (*handlers, *_REFRESH) if credentials.mechanism == "OAUTHBEARER" else handlers[:1]
    return (settings_of(OidcConfig).keys() - {"sasl_client_callback_handler_class"}) | set(_REFRESH)

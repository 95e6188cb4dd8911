"""`Security`: TLS, log-ins and ACLs of a test cluster, as broker settings and as client settings."""

from __future__ import annotations

import base64
import json
import ssl
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Final, Literal

from aioprod.errors import ConfigError, Operation, ResourceType
from aioprod.oauth_token import OAuthToken
from aioprod.testing.acls import Acl, allows
from aioprod.testing.certificates import LOCAL_HOSTS, Authority, Identity
from aioprod.testing.kafka.rpc import Login

__all__ = ["MECHANISMS", "KerberosService", "Security", "TokenIssuer", "unsecured_token"]

MECHANISMS: Final = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER")
_LISTENER: Final = "listener.name.client"
_MODULES: Final = "org.apache.kafka.common.security"
_VALIDATOR: Final = f"{_MODULES}.oauthbearer.OAuthBearerValidatorCallbackHandler"
_TOKEN_S: Final = 3600.0

_BROKERS_LOGIN: Final = Login("aioprod-brokers", "aioprod-brokers-secret")
"""The log-in of brokers with ACLs at each other: without one the ACLs would apply to them as to anonymous clients."""


@dataclass(frozen=True, slots=True)
class TokenIssuer:
    """The issuer of the tokens that brokers accept (KIP-768): signed by a key in the file `jwks` (RFC 7517), with this
    `iss` (`name`) and `aud` (`audience`).

    Brokers read the file when they start, so it has to be on their machine.
    """

    jwks: Path
    name: str
    audience: str

    def broker_properties(self, prefix: str) -> dict[str, str]:
        """The settings of a broker, each with `prefix`."""
        return {
            f"{prefix}.sasl.server.callback.handler.class": _VALIDATOR,
            f"{prefix}.sasl.oauthbearer.jwks.endpoint.url": self.jwks.as_uri(),
            f"{prefix}.sasl.oauthbearer.expected.issuer": self.name,
            f"{prefix}.sasl.oauthbearer.expected.audience": self.audience,
        }

    def java_options(self) -> list[str]:
        """Brokers may read keys from this file and URL only."""
        allowed = "-Dorg.apache.kafka.sasl.oauthbearer.allowed"
        return [f"{allowed}.urls={self.jwks.as_uri()}", f"{allowed}.files={self.jwks}"]


@dataclass(frozen=True, slots=True)
class KerberosService:
    """The brokers' identity at a KDC: a principal such as `kafka/127.0.0.1@REALM`, and its keytab file."""

    principal: str
    keytab: Path
    configuration: Path

    @property
    def service(self) -> str:
        """The value of `sasl.kerberos.service.name`, for clients and brokers."""
        return self.principal.partition("/")[0]

    def jaas(self) -> str:
        """The JAAS entry of Java's Kerberos log-in module."""
        options = f'useKeyTab=true storeKey=true keyTab="{self.keytab}" principal="{self.principal}"'
        return f"com.sun.security.auth.module.Krb5LoginModule required {options};"

    def java_options(self) -> list[str]:
        """The option with the Kerberos configuration."""
        return [f"-Djava.security.krb5.conf={self.configuration}"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Security:
    """How clients authenticate at a cluster, and their authorization; brokers connect to each other in plaintext.

    `users` log in by PLAIN and SCRAM with their passwords. For OAUTHBEARER brokers accept unsecured tokens
    (`unsecured_token`) with any name; real brokers with an `issuer` accept only its tokens. With `kerberos` real
    brokers support GSSAPI. Fake ones support AWS_MSK_IAM if `mechanisms` has it; the users are the access keys. With
    `client_certificates` a client needs a certificate of `authority`. `session_ms` is the lifetime of a session, 0 for
    no limit. `identity` is the brokers' certificate, by default one that `authority` issues.

    With `acls`, even an empty list, clients may do only what these allow, except for the principals in `super_users`.
    """

    protocol: Literal["PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"] = "SASL_SSL"
    mechanisms: Sequence[str] = MECHANISMS
    users: Mapping[str, str] = field(default_factory=lambda: {"alice": "alice-secret", "bob": "bob-secret"})
    client_certificates: bool = False
    session_ms: int = 0
    authority: Authority = field(default_factory=Authority)
    identity: Identity | None = None
    issuer: TokenIssuer | None = None
    kerberos: KerberosService | None = None
    acls: Sequence[Acl] | None = None
    super_users: Sequence[str] = ()

    @property
    def has_tls(self) -> bool:
        """Whether clients have to speak TLS."""
        return self.protocol.endswith("SSL")

    @property
    def has_login(self) -> bool:
        """Whether clients have to log in."""
        return self.protocol.startswith("SASL")

    def broker_properties(self) -> dict[str, str]:
        """The settings of a broker that requires this at the clients' listener."""
        inner = "PLAINTEXT" if self.acls is None else "SASL_PLAINTEXT"
        settings = {"listener.security.protocol.map": f"CLIENT:{self.protocol},INTERNAL:{inner},CONTROLLER:{inner}"}
        if self.acls is not None:
            settings |= self._authorizer()
        if self.has_tls:
            certificate = self.identity or self.authority.issue("broker", LOCAL_HOSTS)
            settings |= {
                f"{_LISTENER}.ssl.keystore.type": "PEM",
                f"{_LISTENER}.ssl.keystore.key": certificate.key,
                f"{_LISTENER}.ssl.keystore.certificate.chain": certificate.chain,
                f"{_LISTENER}.ssl.truststore.type": "PEM",
                f"{_LISTENER}.ssl.truststore.certificates": self.authority.certificate,
                f"{_LISTENER}.ssl.client.auth": "required" if self.client_certificates else "none",
            }
        if self.has_login:
            settings[f"{_LISTENER}.sasl.enabled.mechanisms"] = ",".join(self.mechanisms)
            settings["connections.max.reauth.ms"] = str(self.session_ms)
            for mechanism in self.mechanisms:
                settings[f"{_LISTENER}.{mechanism.lower()}.sasl.jaas.config"] = self._jaas(mechanism)
            if self.issuer is not None:
                settings |= self.issuer.broker_properties(f"{_LISTENER}.oauthbearer")
            if self.kerberos is not None:
                settings["sasl.kerberos.service.name"] = self.kerberos.service
        return settings

    def _authorizer(self) -> dict[str, str]:
        user, password = _BROKERS_LOGIN
        jaas = f'{_MODULES}.plain.PlainLoginModule required username="{user}" password="{password}" '
        jaas += f'user_{user}="{password}";'
        settings = {
            "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
            "allow.everyone.if.no.acl.found": "false",
            "super.users": ";".join((f"User:{user}", *self.super_users)),
            "sasl.mechanism.inter.broker.protocol": "PLAIN",
            "sasl.mechanism.controller.protocol": "PLAIN",
        }
        for listener in ("internal", "controller"):
            settings[f"listener.name.{listener}.sasl.enabled.mechanisms"] = "PLAIN"
            settings[f"listener.name.{listener}.plain.sasl.jaas.config"] = jaas
        return settings

    @property
    def brokers_login(self) -> Login | None:
        """The brokers' log-in at each other, None for none."""
        return None if self.acls is None else _BROKERS_LOGIN

    def allows(self, principal: str, operation: Operation, resource_type: ResourceType, name: str | None) -> bool:
        """Whether a principal may do an operation on a resource; `name` None: on at least one of the type."""
        if self.acls is None or principal in self.super_users:
            return True
        return allows(self.acls, principal, operation, resource_type, name)

    def _jaas(self, mechanism: str) -> str:
        if mechanism == "GSSAPI" and self.kerberos is not None:
            return self.kerberos.jaas()
        if mechanism == "PLAIN":
            users = " ".join(f'user_{name}="{password}"' for name, password in self.users.items())
            return f"{_MODULES}.plain.PlainLoginModule required {users};"
        if mechanism == "OAUTHBEARER":
            options = 'unsecuredLoginStringClaim_sub="broker"' if self.issuer is None else ""
            return f"{_MODULES}.oauthbearer.OAuthBearerLoginModule required {options};"
        return f"{_MODULES}.scram.ScramLoginModule required;"

    def java_options(self) -> list[str]:
        """The JVM options of a broker that it needs."""
        parts = (self.issuer, self.kerberos)
        return [option for part in parts if part is not None for option in part.java_options()]

    def server_context(self) -> ssl.SSLContext | None:
        """The TLS context of a server in this process, None without TLS."""
        if not self.has_tls:
            return None
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        with tempfile.NamedTemporaryFile("w") as store:
            store.write((self.identity or self.authority.issue("broker", LOCAL_HOSTS)).store)
            store.flush()
            context.load_cert_chain(store.name)
        if self.client_certificates:
            context.verify_mode = ssl.CERT_REQUIRED
            context.load_verify_locations(cadata=self.authority.certificate)
        return context

    def format_options(self) -> list[str]:
        """The options of the tool that formats a broker's data folder, which add the SCRAM users."""
        scram = [mechanism for mechanism in self.mechanisms if self.has_login and mechanism.startswith("SCRAM-")]
        return [
            word
            for mechanism in scram
            for name, password in self.users.items()
            for word in ("--add-scram", f"{mechanism}=[name={name},password={password}]")
        ]

    def client_options(self, user: str | None = None, mechanism: str | None = None) -> dict[str, Any]:
        """The security settings of a client: `Producer(servers, **security.client_options("alice"))`.

        By default `user` is the first of the users and `mechanism` the first of the mechanisms. Raises ConfigError for
        an unknown user or mechanism.
        """
        options: dict[str, Any] = {"security_protocol": self.protocol}
        if self.has_tls:
            options["ssl_truststore_certificates"] = self.authority.certificate
        if self.client_certificates:
            own = self.authority.issue(user or "client")
            options |= {"ssl_keystore_key": own.key, "ssl_keystore_certificate_chain": own.chain}
        if not self.has_login:
            return options
        user, mechanism = user or next(iter(self.users)), mechanism or self.mechanisms[0]
        if mechanism not in self.mechanisms:
            raise ConfigError(f"This cluster does not support {mechanism}, but {', '.join(self.mechanisms)}.")
        options["sasl_mechanism"] = mechanism
        if mechanism == "OAUTHBEARER":
            return options | {"sasl_token_provider": partial(unsecured_token, user)}
        if mechanism == "GSSAPI" and self.kerberos is not None:
            return options | {"sasl_kerberos_service_name": self.kerberos.service}
        if mechanism == "AWS_MSK_IAM":
            return options  # AWS's own library finds the keys.
        if user not in self.users:
            raise ConfigError(f"This cluster has no user {user!r}, but {', '.join(self.users)}.")
        return options | {"sasl_username": user, "sasl_password": self.users[user]}


def unsecured_token(user: str, lifetime_s: float = _TOKEN_S) -> OAuthToken:
    """A token without signature, which Kafka's brokers accept when no validator is configured (KIP-255)."""
    # Issued a second ago, as brokers allow no clock skew: a token from the next millisecond is invalid.
    begins = time.time() - 1.0
    ends = begins + 1.0 + lifetime_s
    parts = ({"alg": "none"}, {"sub": user, "iat": begins, "exp": ends})
    encoded = (base64.urlsafe_b64encode(json.dumps(part).encode()).rstrip(b"=").decode() for part in parts)
    return OAuthToken(".".join(encoded) + ".", ends, principal=user)

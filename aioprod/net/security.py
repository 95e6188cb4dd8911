"""Builds the TLS contexts and log-ins of a client from its settings, and imports only what these need."""

from __future__ import annotations

import time
from collections.abc import Iterable
from random import Random
from typing import TYPE_CHECKING

from aioprod._logger import Logger
from aioprod.config import Password, SecurityConfig, Tokens, credentials_of, has_login, has_tls
from aioprod.net.addresses import is_this_machine
from aioprod.net.settings import Address, ClientSettings

if TYPE_CHECKING:
    from aioprod.config._aws import AwsIdentity
    from aioprod.config._token_source import TokenEndpoint, TokenFile
    from aioprod.net.context import ClientContext
    from aioprod.net.link import BrokerLink
    from aioprod.net.login.logins import Logins
    from aioprod.net.login.token_sources import TokenSource
    from aioprod.net.tls.contexts import TlsContexts
    from aioprod.net.tls.rotation import Rotation

__all__ = ["rotation_of", "security_of"]

_logger = Logger("aioprod.net")


def security_of(settings: ClientSettings, random: Random) -> tuple[TlsContexts | None, Logins | None]:
    """The TLS contexts and the log-ins of a client, None where its `security.protocol` has none."""
    tls: TlsContexts | None = None
    logins: Logins | None = None
    config = settings.security
    if config is not None and has_tls(config):
        from aioprod.net.tls.contexts import TlsContexts

        tls = TlsContexts(config, timeout_s=settings.connect_timeout.initial_s)
    if config is not None and has_login(config):
        logins = _logins(config, settings, random)
    return tls, logins


def _logins(config: SecurityConfig, settings: ClientSettings, random: Random) -> Logins:
    from aioprod.config._aws import AwsIdentity
    from aioprod.net.login.logins import PasswordLogins, TokenLogins

    timeout_s = settings.request_timeout_s
    credentials = credentials_of(config)
    if isinstance(credentials, Password):
        if credentials.mechanism == "PLAIN" and not has_tls(config):
            _warn_of_open_password(settings.bootstrap)
        return PasswordLogins(config, timeout_s=timeout_s)
    if isinstance(credentials, AwsIdentity):
        _log_unused(credentials.unused)
    if isinstance(credentials, AwsIdentity) and credentials.mechanism == "AWS_MSK_IAM":
        from aioprod.net.login.aws import AwsCredentials, MskLogins

        return MskLogins(AwsCredentials(credentials, timeout_s=timeout_s), wall=time.time)
    from aioprod.config._kerberos import KerberosIdentity

    if isinstance(credentials, KerberosIdentity):
        from aioprod.net.login.kerberos import KerberosLogins

        _log_unused(credentials.unused)
        return KerberosLogins(credentials, timeout_s=timeout_s)
    source = _token_source(credentials, config, settings, random)
    return TokenLogins(config, source, timeout_s=timeout_s, random=random, wall=time.time)


def _token_source(
    credentials: Tokens | TokenFile | TokenEndpoint | AwsIdentity,
    config: SecurityConfig,
    settings: ClientSettings,
    random: Random,
) -> TokenSource:
    from aioprod.config._token_source import TokenEndpoint, TokenFile
    from aioprod.net.login.token_sources import FileTokens, ProvidedTokens

    if isinstance(credentials, Tokens):
        return ProvidedTokens(credentials.provider)
    if isinstance(credentials, TokenFile):
        return FileTokens(credentials.path, credentials.extensions)
    if isinstance(credentials, TokenEndpoint):
        from aioprod.net.login.token_endpoint import EndpointTokens

        return EndpointTokens(config, random=random, wall=time.time)
    from aioprod.net.login.aws import AwsCredentials, MskTokens

    found = AwsCredentials(credentials, timeout_s=settings.request_timeout_s)
    return MskTokens(found, [host for host, _ in settings.bootstrap], wall=time.time)


def _log_unused(options: Iterable[str]) -> None:
    if options:
        _logger.info("Options of sasl.jaas.config that change nothing in aioprod: %s.", ", ".join(options))


def _warn_of_open_password(addresses: Iterable[Address]) -> None:
    others = [host for host, _ in addresses if not is_this_machine(host)]
    if others:
        _logger.warning(
            "The password goes to %s in the clear: PLAIN over SASL_PLAINTEXT hides nothing. Use SASL_SSL, or SCRAM.",
            ", ".join(others),
        )


def rotation_of(links: Iterable[BrokerLink], context: ClientContext) -> Rotation | None:
    """The rotation of certificates and credentials for these links, None without any."""
    if not context.is_secured:
        return None
    from aioprod.net.tls.rotation import Rotation

    return Rotation(links, context)

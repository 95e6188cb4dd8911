"""A properties file in words: the settings in effect, with secrets hidden, and those that are left out."""

from __future__ import annotations

from collections.abc import Iterator
from os import PathLike
from typing import TYPE_CHECKING

from aioprod.config._aws import AwsIdentity
from aioprod.config._base import settings_of
from aioprod.config._client import ClientConfig
from aioprod.config._files import read_file
from aioprod.config._kerberos import KerberosIdentity
from aioprod.config._properties import parse_properties
from aioprod.config._security import Password, credentials_of, has_login, has_tls
from aioprod.config._setting import dotted
from aioprod.config._token_source import TokenEndpoint, TokenFile

if TYPE_CHECKING:
    from aioprod.config._security import Credentials

__all__ = ["check_file"]


def check_file(path: str | PathLike[str], cls: type[ClientConfig]) -> str:
    """Read a properties file as a configuration of this class and describe it; raises ConfigError as a client does."""
    config = cls.from_properties(path)
    lines = [f"{path}: a valid {cls.__name__}"]
    for name, setting in settings_of(cls).items():
        if name in config.explicit:
            lines.append(f"  {dotted(name)} = {setting.show(getattr(config, name))}")
    lines.extend(_security(config))
    content = read_file(path, f"The properties file {str(path)!r}", may_wait=True)
    left_out = config.left_out(parse_properties(content))
    lines.extend(f"Left out: {name}, {reason}." for name, reason in left_out.items())
    return "".join(f"{line}\n" for line in lines)


def _security(config: ClientConfig) -> Iterator[str]:
    if not has_tls(config):
        yield "Connections are not encrypted."
    elif config.ssl_endpoint_identification_algorithm == "https":
        yield "Connections are encrypted (TLS); a broker's certificate must be for its host."
    else:
        yield "Connections are encrypted (TLS); a broker's certificate may be for any host."
    if not has_login(config):
        yield "There is no log-in."
        return
    yield _login(credentials_of(config))


def _login(credentials: Credentials) -> str:
    if isinstance(credentials, Password):
        kind = "delegation token" if credentials.is_token else "user"
        return f"The {kind} {credentials.username!r} logs in by {credentials.mechanism}."
    if isinstance(credentials, TokenFile):
        return f"The token in {credentials.path!r} logs in by OAUTHBEARER."
    if isinstance(credentials, TokenEndpoint):
        return f"A token of {credentials.shown} logs in by OAUTHBEARER; the endpoint gets {credentials.grant.value}."
    if isinstance(credentials, AwsIdentity):
        return f"AWS credentials log in by {credentials.mechanism}."
    if isinstance(credentials, KerberosIdentity):
        return "A Kerberos ticket logs in by GSSAPI."
    return "A token logs in by OAUTHBEARER."

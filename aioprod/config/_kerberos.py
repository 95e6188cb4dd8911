"""The identity for a log-in by Kerberos, from the service's name and the options of Java's log-in module."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from aioprod.errors import ConfigError

if TYPE_CHECKING:
    from aioprod.config._jaas import JaasEntry

__all__ = ["KerberosIdentity", "kerberos_identity_of"]

_USED: Final = ("serviceName", "principal", "useKeyTab", "keyTab", "ticketCache")
_IMPLIED: Final = {"storeKey": "true", "useTicketCache": "true", "doNotPrompt": "true", "renewTGT": "false"}
"""Options that Java needs and aioprod does not. They may only have values that mean what aioprod does anyway."""
_UNUSED: Final = (
    "refreshKrb5Config",
    "debug",
    "isInitiator",
    "useFirstPass",
    "tryFirstPass",
    "storePass",
    "clearPass",
)
"""Options of Java's logging, of when it reads krb5.conf, and of where its password comes from. Here they change
nothing."""


@dataclass(frozen=True, slots=True)
class KerberosIdentity:
    """Log-ins by GSSAPI at the brokers' `service`.

    Where a text is empty, the Kerberos library and its environment decide.
    """

    service: str
    principal: str = ""
    keytab: str = ""
    ticket_cache: str = ""
    unused: tuple[str, ...] = ()
    """The options that change nothing here."""


def kerberos_identity_of(service: str | None, entry: JaasEntry | None) -> KerberosIdentity:
    """The identity that setting and options name; raises ConfigError for a missing or unsupported option."""
    options = {} if entry is None else dict(entry.options)
    for name, value in options.items():
        if name not in (*_USED, *_UNUSED) and not (name in _IMPLIED and value.lower() in (_IMPLIED[name], "false")):
            raise ConfigError(
                f"sasl.jaas.config has the option {name!r}, which aioprod does not have for Kerberos, or not so.",
                hint=f"It has {', '.join(_USED)}; the rest is for krb5.conf.",
            )
    named = {service, options.get("serviceName")} - {None, ""}
    if len(named) != 1:
        raise ConfigError(
            "sasl.kerberos.service.name and serviceName in sasl.jaas.config are not the same."
            if named
            else "sasl.mechanism=GSSAPI needs sasl.kerberos.service.name.",
            hint="It is the first part of the brokers' principal: kafka of kafka/broker.example.com@EXAMPLE.COM.",
        )
    uses_keytab = options.get("useKeyTab", "false").lower() == "true"
    if uses_keytab != bool(options.get("keyTab")):
        raise ConfigError("useKeyTab=true and keyTab in sasl.jaas.config go together.", hint="Give both or none.")
    if uses_keytab and not options.get("principal"):
        raise ConfigError("keyTab in sasl.jaas.config needs the option principal.")
    if uses_keytab and options.get("ticketCache"):
        raise ConfigError("keyTab and ticketCache in sasl.jaas.config are both given.", hint="Give one.")
    return KerberosIdentity(
        str(named.pop()),
        options.get("principal", ""),
        options.get("keyTab", ""),
        options.get("ticketCache", ""),
        unused=tuple(name for name in options if name in _UNUSED),
    )

"""TLS to a schema registry: the context that the settings describe, and OpenSSL's words."""

from __future__ import annotations

import ssl

from aioprod.errors import ConfigError
from aioprod.net.happy_eyeballs import reason_of
from aioprod.schema_registry.config import RegistryConfig

__all__ = ["system_words", "tls_context"]


def tls_context(config: RegistryConfig) -> ssl.SSLContext:
    """The context for all connections; it reads files. Raises ConfigError."""
    try:
        context = ssl.create_default_context(cafile=config.ca_file)
    except OSError as error:
        raise ConfigError(
            f"ca_file {config.ca_file!r} of the schema registry can't be used: {system_words(error)}.",
            hint="It has to contain certificates in PEM.",
        ) from error
    if config.certificate_file is not None:
        # Without a password, OpenSSL would read one from the terminal.
        password = config.key_password or ""
        try:
            context.load_cert_chain(config.certificate_file, config.key_file, lambda: password)
        except OSError as error:
            raise ConfigError(
                f"certificate_file {config.certificate_file!r} of the schema registry, or its private key, can't be "
                f"used: {system_words(error)}.",
                hint="Both are PEM; the key is in the same file or in key_file, and key_password opens it.",
            ) from error
    return context


def system_words(error: OSError) -> str:
    """What the system, or OpenSSL, says about an error; the number of an SSLError is not one of the system's."""
    if isinstance(error, ssl.SSLError):
        return (error.reason or "it is not valid").replace("_", " ").lower()
    return reason_of(error)

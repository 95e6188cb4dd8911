"""The class in which a user writes the settings of a schema registry, and the same as typed keyword arguments."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Any, ClassVar, TypeAlias, TypedDict

from aioprod.config import Settings
from aioprod.config._setting import HIGH, LOW, MEDIUM, given_object, integer, optional_text
from aioprod.errors import ConfigError

if TYPE_CHECKING:
    from aioprod.config._other_clients import Role

__all__ = ["RegistryConfig", "RegistryOptions", "Token"]

Token: TypeAlias = str | Callable[[], str | Awaitable[str]]
"""A bearer token, or a function that returns one, or an awaitable of one, for each request."""


def _token(given: Any) -> Any:
    if isinstance(given, str) or callable(given):
        return given
    raise ValueError("no token")


class RegistryConfig(Settings):
    """The settings of a SchemaRegistry."""

    _ours: ClassVar[tuple[str, ...]] = ()
    _role: ClassVar[Role] = "any client"

    username: str | None = optional_text(importance=HIGH, doc="The user, for a registry that wants a log-in (Basic).")
    password: str | None = optional_text(importance=HIGH, doc="The user's password.", secret=True)
    token: Any = given_object(
        _token,
        "a string, or a function that returns one or an awaitable of one",
        "Token | None",
        importance=HIGH,
        doc="A bearer token in place of user and password. A function is called for each request.",
        secret=True,
    )
    ca_file: str | None = optional_text(
        importance=HIGH, doc="The file (PEM) with the CAs that the registry's certificate must come from."
    )
    certificate_file: str | None = optional_text(
        importance=MEDIUM, doc="The file (PEM) with the client's certificate, for a registry that wants one."
    )
    key_file: str | None = optional_text(
        importance=MEDIUM, doc="The file (PEM) with its private key, if `certificate_file` does not have it."
    )
    key_password: str | None = optional_text(
        importance=MEDIUM, doc="The password of the private key, if it has one.", secret=True
    )
    request_timeout_ms: int = integer(
        10_000,
        at_least=1,
        importance=MEDIUM,
        doc="How long one try of a request may take, with its token and connecting.",
    )
    retries: int = integer(
        3,
        importance=MEDIUM,
        doc="How often a request is tried again that got no answer, or an HTTP status of 408, 429, or from 500 on; "
        "each of several URLs is tried at least once.",
    )
    retry_backoff_ms: int = integer(
        100, importance=LOW, doc="The pause before the first retry; it doubles with each one, and is varied at random."
    )
    retry_backoff_max_ms: int = integer(2_000, importance=LOW, doc="The longest pause between retries.")
    latest_ttl_ms: int = integer(
        300_000,
        at_least=1,
        importance=MEDIUM,
        doc="After this time the latest version of a subject is looked up again, in the background.",
    )
    schemas_cached_max: int = integer(
        1_000, at_least=1, importance=LOW, doc="How many schemas are cached by id, GUID and version, for reading."
    )
    response_bytes_max: int = integer(
        16_777_216, at_least=1024, importance=LOW, doc="The largest response that is read; none is compressed."
    )

    def _adjustments(self) -> Mapping[str, object]:
        if self.token is not None and self.username is not None:
            raise ConfigError("token and username are both given: a registry takes one log-in.")
        if (self.username is None) != (self.password is None):
            given, lacking = ("username", "password") if self.password is None else ("password", "username")
            raise ConfigError(f"{given} is given without {lacking}.")
        if self.key_file is not None and self.certificate_file is None:
            raise ConfigError("key_file is given without certificate_file.")
        return {}


class RegistryOptions(TypedDict, total=False):
    """The same as keyword arguments."""

    username: str | None
    password: str | None
    token: Token | None
    ca_file: str | None
    certificate_file: str | None
    key_file: str | None
    key_password: str | None
    request_timeout_ms: int
    retries: int
    retry_backoff_ms: int
    retry_backoff_max_ms: int
    latest_ttl_ms: int
    schemas_cached_max: int
    response_bytes_max: int

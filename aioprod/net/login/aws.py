"""Log-ins to Amazon MSK with IAM, by credentials that botocore finds (extra `aws`)."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from typing import Any, Final

from aioprod._short_reprs import printable
from aioprod.config._aws import AwsIdentity
from aioprod.errors import AuthenticationError, ConfigError
from aioprod.net.one_thread import OneThread
from aioprod.net.protocol.login import Login
from aioprod.net.protocol.sasl.aws_msk_iam import AwsKeys, aws_msk_iam, msk_token, region_of
from aioprod.net.settings import SOFTWARE_NAME, software_version
from aioprod.oauth_token import OAuthToken

__all__ = ["AwsCredentials", "MskLogins", "MskTokens"]

_NAME: Final = "The AWS credentials"
_ERROR_TEXT_MAX: Final = 300
_ROLE_SESSION: Final = "aioprod"
_REGION_VARIABLES: Final = ("AWS_REGION", "AWS_DEFAULT_REGION")
_REJECTED_HINT: Final = "Check that this identity may kafka-cluster:Connect, and the clock of this machine."
_EXPIRED_HINT: Final = "They had expired when they came: check the clock of this machine."


class AwsCredentials:
    """The cached credentials of one client. Botocore refreshes temporary ones, from 15 minutes before their end on.

    A new session for each log-in would be another principal for the brokers where a role is assumed, and they reject
    that in a re-authentication.
    """

    def __init__(self, identity: AwsIdentity, *, timeout_s: float) -> None:
        self._identity = identity
        self._timeout_s = timeout_s
        self._found: Any = None
        self._thread = OneThread()

    async def keys(self) -> AwsKeys:
        """The signing keys; raises AuthenticationError if there are none, ConfigError without botocore."""
        scope = asyncio.timeout(self._timeout_s)
        try:
            async with scope:
                return await self._thread.run(self._keys)
        except TimeoutError:
            raise AuthenticationError(f"{_NAME} were not found within {self._timeout_s:g} s.") from None

    def forget(self) -> None:
        """Drop the cached credentials, unless botocore refreshes them."""
        if getattr(self._found, "refresh_needed", None) is None:
            self._found = None

    def _keys(self) -> AwsKeys:
        try:
            import botocore.exceptions
        except ImportError:
            raise ConfigError(
                "To log in to Amazon MSK by IAM aioprod needs the package botocore.",
                hint="Install it: pip install 'aioprod[aws]'.",
            ) from None
        try:
            # The loop's thread may forget them meanwhile.
            found = self._found or _found(self._identity)
            self._found = found
            frozen = found.get_frozen_credentials()
        except AuthenticationError:
            raise
        except Exception as error:
            raise _explained(error, (botocore.exceptions.BotoCoreError, botocore.exceptions.ClientError)) from None
        return AwsKeys(frozen.access_key, frozen.secret_key, frozen.token or "")


class MskLogins:
    """Log-ins by the mechanism AWS_MSK_IAM. `wall` is the time since the epoch."""

    def __init__(self, credentials: AwsCredentials, *, wall: Callable[[], float]) -> None:
        self._credentials = credentials
        self._wall = wall

    async def new(self, host: str) -> Login:
        """A log-in at a broker; raises AuthenticationError without credentials, ConfigError without a region."""
        region = _region([host])
        keys = await self._credentials.keys()
        return Login(
            "AWS_MSK_IAM",
            aws_msk_iam(host.rstrip("."), region, keys, self._wall(), user_agent()),
            user=f"AWS access key {keys.access!r}",
            hint=_REJECTED_HINT,
        )

    def rejected(self) -> None:
        """Look for credentials again: those that botocore does not refresh may have been replaced."""
        self._credentials.forget()

    async def reload(self) -> None:
        """Look for credentials again; raises AuthenticationError if there are none."""
        self._credentials.forget()
        await self._credentials.keys()

    @property
    def ends(self) -> float | None:
        """None: botocore refreshes temporary credentials in time, and others don't expire."""
        return None


class MskTokens:
    """Tokens made of the same credentials, for Amazon MSK by OAUTHBEARER. `hosts` are the bootstrap servers'."""

    name = _NAME

    def __init__(self, credentials: AwsCredentials, hosts: list[str], *, wall: Callable[[], float]) -> None:
        self._credentials = credentials
        self._hosts = hosts
        self._wall = wall

    async def fetch(self) -> OAuthToken:
        """A token for the region of the hosts; raises as `MskLogins.new` does."""
        region = _region(self._hosts)
        # Called once for each token, so a new search for replaced credentials costs little.
        self._credentials.forget()
        return msk_token(region, await self._credentials.keys(), self._wall(), user_agent())


def user_agent() -> str:
    """Our name in the logs of AWS."""
    return f"{SOFTWARE_NAME}/{software_version()}"


def _region(hosts: list[str]) -> str:
    named = [region_of(host) for host in hosts]
    found = next(filter(None, [*named, *(os.environ.get(name) for name in _REGION_VARIABLES)]), None)
    if found is None:
        raise ConfigError(
            f"The AWS region is not known: {hosts[0]!r} has none in its name.",
            hint=f"Set the environment variable {_REGION_VARIABLES[0]}.",
        )
    return found


def _explained(error: Exception, own: tuple[type[Exception], ...]) -> AuthenticationError:
    """Quotes botocore's `own` errors only, except those that contain the output of a credential program."""
    named = type(error).__name__
    is_shown = isinstance(error, own) and named != "CredentialRetrievalError"
    what = printable(str(error), _ERROR_TEXT_MAX).rstrip(".") if is_shown else named
    # botocore raises a plain RuntimeError for credentials that are expired on arrival.
    hint = _EXPIRED_HINT if isinstance(error, RuntimeError) and "expired" in str(error) else None
    return AuthenticationError(f"{_NAME} can't be fetched: {what}.", hint=hint)


def _found(identity: AwsIdentity) -> Any:
    from botocore.credentials import AssumeRoleCredentialFetcher, DeferredRefreshableCredentials
    from botocore.session import Session

    session = Session(profile=identity.profile or None)
    found = session.get_credentials()
    if found is None:
        raise AuthenticationError(
            f"{_NAME} were not found.",
            hint="They are looked for in the environment, in ~/.aws, and in what ECS, EKS and EC2 give.",
        )
    if not identity.role:
        return found

    def client(service: str, **options: Any) -> Any:
        region = identity.sts_region or session.get_config_variable("region")
        return session.create_client(service, region_name=region, **options)

    fields = {"RoleSessionName": identity.role_session or _ROLE_SESSION, "ExternalId": identity.external_id}
    fetcher = AssumeRoleCredentialFetcher(
        client, found, identity.role, extra_args={name: value for name, value in fields.items() if value}
    )
    return DeferredRefreshableCredentials(method="assume-role", refresh_using=fetcher.fetch_credentials)

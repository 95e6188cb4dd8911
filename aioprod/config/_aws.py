"""The identity for Amazon MSK's log-in by IAM, from the options of its log-in module under their own names."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal

from aioprod.errors import ConfigError

if TYPE_CHECKING:
    from aioprod.config._jaas import JaasEntry

__all__ = ["AwsIdentity", "aws_identity_of"]

_FOR_ROLES: Final = ("awsRoleSessionName", "awsRoleExternalId", "awsStsRegion")
_OPTIONS: Final = ("awsProfileName", "awsRoleArn", *_FOR_ROLES)
_UNUSED: Final = ("awsDebugCreds", "awsMaxRetries", "awsMaxBackOffTimeMs")
"""How Java's module looks for credentials and what it logs. Here botocore looks, with its own settings."""


@dataclass(frozen=True, slots=True)
class AwsIdentity:
    """Log-ins with credentials that AWS's own library finds: those of a profile, or of a role that they assume.

    Where a text is empty, that library decides.
    """

    mechanism: Literal["AWS_MSK_IAM", "OAUTHBEARER"]
    profile: str = ""
    role: str = ""
    role_session: str = ""
    external_id: str = ""
    sts_region: str = ""
    unused: tuple[str, ...] = ()
    """The options that change nothing here."""


def aws_identity_of(mechanism: Literal["AWS_MSK_IAM", "OAUTHBEARER"], entry: JaasEntry | None) -> AwsIdentity:
    """The identity that the options name; raises ConfigError for an unknown option."""
    options = {} if entry is None else entry.options
    unknown = options.keys() - {*_OPTIONS, *_UNUSED}
    if unknown:
        raise ConfigError(
            f"sasl.jaas.config has the option {min(unknown)!r}, which aioprod does not have for Amazon MSK.",
            hint=f"It has {', '.join(_OPTIONS)}.",
        )
    for name in _FOR_ROLES:
        if name in options and "awsRoleArn" not in options:
            raise ConfigError(f"sasl.jaas.config has the option {name!r} without awsRoleArn.")
    return AwsIdentity(
        mechanism,
        profile=options.get("awsProfileName", ""),
        role=options.get("awsRoleArn", ""),
        role_session=options.get("awsRoleSessionName", ""),
        external_id=options.get("awsRoleExternalId", ""),
        sts_region=options.get("awsStsRegion", ""),
        unused=tuple(name for name in options if name in _UNUSED),
    )

"""Authorization failures of brokers, as errors that name the missing right."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple

from aioprod._error_codes import ErrorCode
from aioprod.errors import AuthorizationError, Operation, ResourceType

__all__ = ["DENIAL_CODES", "IDEMPOTENT_WRITE", "Right", "authorization_error"]

DENIAL_CODES: Final[Mapping[ResourceType, ErrorCode]] = {
    "topic": ErrorCode.TOPIC_AUTHORIZATION_FAILED,
    "group": ErrorCode.GROUP_AUTHORIZATION_FAILED,
    "cluster": ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
    "transactional_id": ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
    "delegation_token": ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED,
}
"""The type of a resource -> the error code of a broker for a client without the right to it."""

_TYPES: Final[Mapping[int, ResourceType]] = {code: kind for kind, code in DENIAL_CODES.items()}
_NAMED_MAX: Final = 5
"""How many resources a hint names."""


class Right(NamedTuple):
    """An operation on one resource, as ACLs know it."""

    operation: Operation
    resource_type: ResourceType
    resource: str


IDEMPOTENT_WRITE: Final = Right("IDEMPOTENT_WRITE", "cluster", "kafka-cluster")
"""The right to a producer id before 2.8; later brokers accept WRITE on any topic as well (KIP-679)."""


def authorization_error(
    message: str, code: int, rights: Iterable[Right], *, instead: str | None = None
) -> AuthorizationError | None:
    """The error for a request that was answered with `code`; None if that is not an authorization failure.

    `rights` are all that the request needs. The hint has those for the resource type of the code, as a command for an
    operator; the first of them is the error's. `instead` names other rights that would do.
    """
    resource_type = _TYPES.get(code)
    if resource_type is None:
        return None
    missing = [right for right in rights if right.resource_type == resource_type]
    if not missing:
        hint = "The broker's log of its authorizer (kafka.authorizer.logger) has the missing right."
        return AuthorizationError(message, resource_type=resource_type, hint=hint)
    operation, _, resource = missing[0]
    hint = f"Allow the principal of this client {_in_words(missing)}: `{_command(missing)}`"
    hint += f", or {instead}." if instead else "."
    return AuthorizationError(message, resource_type=resource_type, resource=resource, operation=operation, hint=hint)


def _in_words(missing: Sequence[Right]) -> str:
    """Operations by Kafka's names, and resources."""
    operations = dict.fromkeys(right.operation for right in missing)
    names = list(dict.fromkeys(right.resource for right in missing))
    kind = missing[0].resource_type
    if kind == "cluster":
        return f"{' and '.join(operations)} on the cluster"
    more = f" and {len(names) - _NAMED_MAX} more" if len(names) > _NAMED_MAX else ""
    named = ", ".join(repr(name) for name in names[:_NAMED_MAX])
    return f"{' and '.join(operations)} on {kind.replace('_', ' ')} {named}{more}"


def _command(missing: Sequence[Right]) -> str:
    """The command of Kafka's tool that allows them; it spells operations of two words in CamelCase.

    The principal is not known here: the brokers assign it.
    """
    words = ["kafka-acls.sh --add --allow-principal User:NAME"]
    words += dict.fromkeys(f"--operation {right.operation.title().replace('_', '')}" for right in missing)
    words += list(dict.fromkeys(_flag(right) for right in missing))[:_NAMED_MAX]
    return " ".join(words)


def _flag(right: Right) -> str:
    flag = f"--{right.resource_type.replace('_', '-')}"
    return flag if right.resource_type == "cluster" else f"{flag} {shlex.quote(right.resource)}"

"""ACLs of test clusters, evaluated by the rules of Kafka's StandardAuthorizer (KIP-801)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias, get_args

from aioprod.errors import ConfigError, Operation, ResourceType

__all__ = ["ANONYMOUS", "CLUSTER", "Acl", "Pattern", "Permission", "allows"]

Pattern: TypeAlias = Literal["literal", "prefixed"]
Permission: TypeAlias = Literal["allow", "deny"]

ANONYMOUS: Final = "User:ANONYMOUS"
"""The principal of clients without log-in and certificate."""

CLUSTER: Final = "kafka-cluster"
"""The name of the one resource of type "cluster"."""

_IMPLIED_BY: Final[dict[str, tuple[str, ...]]] = {
    "DESCRIBE": ("READ", "WRITE", "DELETE", "ALTER"),
    "DESCRIBE_CONFIGS": ("ALTER_CONFIGS",),
}


@dataclass(frozen=True, slots=True)
class Acl:
    """Allows or denies a principal an operation on a resource: `Acl("User:alice", "WRITE", "topic", "orders")`.

    `principal` is `User:` and the user name of the log-in, `User:CN=...` of a client with a certificate, or
    `User:ANONYMOUS`; `User:*` is every client. `name` "*" stands for all resources of the type; that of the cluster is
    "kafka-cluster". With pattern "prefixed", `name` is the beginning of the resources' names. Raises ConfigError for
    what brokers would reject.
    """

    principal: str
    operation: Operation | Literal["ALL"]
    resource_type: ResourceType
    name: str
    pattern: Pattern = "literal"
    permission: Permission = "allow"

    def __post_init__(self) -> None:
        if not self.principal.startswith("User:"):
            raise ConfigError(f"The principal of an ACL is {self.principal!r}: it must begin with User:.")
        for what, given, known in (
            ("operation", self.operation, ("ALL", *get_args(Operation))),
            ("resource_type", self.resource_type, get_args(ResourceType)),
            ("pattern", self.pattern, get_args(Pattern)),
            ("permission", self.permission, get_args(Permission)),
        ):
            if given not in known:
                raise ConfigError(f"The {what} of an ACL is {given!r}: it must be one of {', '.join(known)}.")
        if self.resource_type == "cluster" and self.name != CLUSTER:
            raise ConfigError(f"The cluster's name in an ACL is {self.name!r}: it must be {CLUSTER}.")

    def _concerns(self, principal: str, resource_type: ResourceType) -> bool:
        return self.principal in (principal, "User:*") and self.resource_type == resource_type

    def _is_for(self, name: str) -> bool:
        return name.startswith(self.name) if self.pattern == "prefixed" else self.name in (name, "*")

    def _covers(self, other: Acl) -> bool:
        """Whether it matches all names that the other one matches."""
        if self.pattern == "literal":
            return self.name == "*" or (other.pattern == "literal" and self.name == other.name)
        return other.name.startswith(self.name)


def allows(
    acls: Iterable[Acl], principal: str, operation: Operation, resource_type: ResourceType, name: str | None
) -> bool:
    """Whether the ACLs allow an operation on a resource; `name` None: on at least one resource of the type.

    A denial overrides permissions, and without a permission an operation is denied. READ, WRITE, DELETE and ALTER
    imply DESCRIBE.
    """
    concerned = [acl for acl in acls if acl._concerns(principal, resource_type)]
    denying = [acl for acl in concerned if acl.permission == "deny" and acl.operation in (operation, "ALL")]
    enough = (operation, "ALL", *_IMPLIED_BY.get(operation, ()))
    allowing = [acl for acl in concerned if acl.permission == "allow" and acl.operation in enough]
    if name is None:
        return _anywhere(allowing, denying)
    return not any(acl._is_for(name) for acl in denying) and any(acl._is_for(name) for acl in allowing)


def _anywhere(allowing: Sequence[Acl], denying: Sequence[Acl]) -> bool:
    return any(not any(denied._covers(allowed) for denied in denying) for allowed in allowing)

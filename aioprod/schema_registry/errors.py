"""Errors of a schema registry; each is a SerializationError, as a record can't become bytes, or be read, without it.

SerializationError
└── RegistryError                     the registry's part in serializing a key or value failed
    ├── RegistryUnreachableError      no registry answered
    ├── RegistryAccessError           it does not accept the log-in, or the user lacks a right
    ├── SchemaRejectedError           it does not register the schema: incompatible, or invalid
    ├── UnknownSubjectError           it has no subject of that name
    ├── UnknownSchemaError            it has no schema of that id, GUID or version, or not in that subject
    └── RegistryAnswerError           it failed, or what answered is not a schema registry
"""

from __future__ import annotations

from aioprod.errors import SerializationError

__all__ = [
    "RegistryAccessError",
    "RegistryAnswerError",
    "RegistryError",
    "RegistryUnreachableError",
    "SchemaRejectedError",
    "UnknownSchemaError",
    "UnknownSubjectError",
]


class RegistryError(SerializationError):
    """The schema registry's part in turning a key or value into bytes, or back, failed.

    `subject` is the subject that the request was for, None for a look-up by id. `status` is the HTTP status of the
    answer, `code` the registry's own error code, and `reason` its words; each is None where there is none.
    `is_passing`: the same call may succeed later.
    """

    is_passing: bool = False

    def __init__(
        self,
        message: str,
        *,
        subject: str | None = None,
        status: int | None = None,
        code: int | None = None,
        reason: str | None = None,
        hint: str | None = None,
    ) -> None:
        super().__init__(message, hint=hint)
        self.subject = subject
        self.status = status
        self.code = code
        self.reason = reason


class RegistryUnreachableError(RegistryError):
    """No registry answered: each try ended without a connection, with a broken one, or in the time limit."""

    is_passing = True


class RegistryAccessError(RegistryError):
    """The registry does not accept the log-in (401), or the user lacks a right (403)."""


class SchemaRejectedError(RegistryError):
    """The registry does not accept the schema.

    `is_incompatible`: it is not compatible with an earlier version in the subject; else it is invalid.
    """

    def __init__(
        self,
        message: str,
        *,
        is_incompatible: bool,
        subject: str | None = None,
        status: int | None = None,
        code: int | None = None,
        reason: str | None = None,
        hint: str | None = None,
    ) -> None:
        super().__init__(message, subject=subject, status=status, code=code, reason=reason, hint=hint)
        self.is_incompatible = is_incompatible


class UnknownSubjectError(RegistryError):
    """The registry has no subject of that name."""


class UnknownSchemaError(RegistryError):
    """The registry has no schema of that id, GUID or version, or the subject does not have this schema."""


class RegistryAnswerError(RegistryError):
    """The registry answered with a failure of its own, or with something that is not a schema registry's answer."""

    def __init__(
        self,
        message: str,
        *,
        is_passing: bool = False,
        subject: str | None = None,
        status: int | None = None,
        code: int | None = None,
        reason: str | None = None,
        hint: str | None = None,
    ) -> None:
        super().__init__(message, subject=subject, status=status, code=code, reason=reason, hint=hint)
        self.is_passing = is_passing

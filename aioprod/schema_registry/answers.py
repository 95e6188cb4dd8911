"""What a schema registry's answers mean: its JSON, or the error of a status and an error code.

https://docs.confluent.io/platform/current/schema-registry/develop/api.html#errors
"""

from __future__ import annotations

import json
import uuid
from typing import Any, Final, NamedTuple, TypeVar, cast, get_args

from aioprod._short_reprs import printable
from aioprod.schema_registry.errors import (
    RegistryAccessError,
    RegistryAnswerError,
    RegistryError,
    SchemaRejectedError,
    UnknownSchemaError,
    UnknownSubjectError,
)
from aioprod.schema_registry.schemas import Reference, RegisteredSchema, Schema, SchemaType

__all__ = [
    "Answer",
    "Fields",
    "Purpose",
    "body_of",
    "error_of",
    "is_passing",
    "names_in",
    "registered_schema",
    "schema_of",
]

T = TypeVar("T")

_WORDS_MAX: Final = 500
"""Characters of the registry's message that are shown."""

_PATH_HINT: Final = "Check the address: of some registries it has a path, as /apis/ccompat/v7 of Apicurio's."
_UNKNOWN_SUBJECT: Final = 40401
_UNKNOWN_SCHEMA: Final = frozenset({40402, 40403, 40406, 40411})
"""Version, schema, a version or a subject that was deleted softly."""

_PASSING: Final = frozenset({408, 429})
"""Request timeout, too many requests."""


class Purpose(NamedTuple):
    """What a request is for, as messages say it, and the subject, None without one."""

    text: str
    subject: str | None = None

    @classmethod
    def of(cls, subject: str, version: int | None = None) -> Purpose:
        """A request for a subject, or for one version of it."""
        return cls(f"subject {subject!r}" + ("" if version is None else f", version {version}"), subject)


class Answer(NamedTuple):
    """A response: its status and its content."""

    status: int
    content: bytes

    def parsed(self, address: str, purpose: Purpose) -> Any:
        """The content's JSON; raises RegistryAnswerError."""
        try:
            return json.loads(self.content)
        except (ValueError, RecursionError):
            raise RegistryAnswerError(
                f"What answers at {address} for {purpose.text} is not a schema registry: its answer is not JSON.",
                subject=purpose.subject,
                status=self.status,
                hint=_PATH_HINT,
            ) from None

    def words(self) -> tuple[int | None, str | None]:
        """The registry's error code and message, None where there is none."""
        try:
            parsed = json.loads(self.content)
        except (ValueError, RecursionError):
            return None, None
        if not isinstance(parsed, dict):
            return None, None
        code, message = parsed.get("error_code"), parsed.get("message")
        return (
            code if isinstance(code, int) else None,
            printable(message, _WORDS_MAX) if isinstance(message, str) and message else None,
        )


class Fields:
    """The fields of an answer; raises RegistryAnswerError where one is missing or of another type."""

    def __init__(self, parsed: Any, purpose: Purpose) -> None:
        self._purpose = purpose
        if not isinstance(parsed, dict):
            raise self.wrong("it is not a JSON object")
        self._fields = parsed

    def required(self, name: str, kind: type[T]) -> T:
        """The value of a field."""
        value = self._fields.get(name)
        if type(value) is not kind:
            raise self.wrong(f"its field {name!r} is not of type {kind.__name__}")
        return value

    def optional(self, name: str, kind: type[T]) -> T | None:
        """The value of a field, or None without it."""
        return None if self._fields.get(name) is None else self.required(name, kind)

    def parts(self, name: str) -> list[Fields]:
        """The objects in a list, which may be left out."""
        return [Fields(part, self._purpose) for part in self.optional(name, list) or ()]

    def wrong(self, what: str) -> RegistryAnswerError:
        """The error of an answer of which `what` is wrong."""
        return RegistryAnswerError(
            f"The schema registry's answer for {self._purpose.text} can't be used: {what}.",
            subject=self._purpose.subject,
        )


def body_of(schema: Schema) -> dict[str, Any]:
    """A schema as the body of a request."""
    body: dict[str, Any] = {"schema": schema.text, "schemaType": schema.type}
    if schema.references:
        body["references"] = [
            {"name": each.name, "subject": each.subject, "version": each.version} for each in schema.references
        ]
    return body


def schema_of(fields: Fields) -> Schema:
    """The schema in an answer."""
    kind = fields.optional("schemaType", str) or "AVRO"
    if kind not in get_args(SchemaType):
        raise fields.wrong(f"the schema's type is {printable(kind, _WORDS_MAX)!r}")
    references = tuple(
        Reference(part.required("name", str), part.required("subject", str), part.required("version", int))
        for part in fields.parts("references")
    )
    return Schema(fields.required("schema", str), cast(SchemaType, kind), references)


def registered_schema(subject: str, parsed: Any, sent: Schema | None = None) -> RegisteredSchema:
    """The schema with its ids; `sent` is the one of the request, which a registry may write in another way."""
    fields = Fields(parsed, Purpose.of(subject))
    guid = fields.optional("guid", str)
    try:
        known_guid = None if guid is None else uuid.UUID(guid)
    except ValueError:
        raise fields.wrong("its field 'guid' is not a GUID") from None
    schema_id = fields.required("id", int)
    if not 0 <= schema_id < 2**32:
        raise fields.wrong("its field 'id' does not fit in 4 bytes")
    return RegisteredSchema(
        subject=subject,
        id=schema_id,
        schema=sent or schema_of(fields),
        version=fields.optional("version", int),
        guid=known_guid,
    )


def names_in(parsed: Any) -> list[str]:
    """A list of names."""
    if not isinstance(parsed, list) or not all(isinstance(name, str) for name in parsed):
        raise RegistryAnswerError("The schema registry's list of subjects can't be used: it is not a list of names.")
    return parsed


def is_passing(status: int) -> bool:
    """Whether the same request may succeed later: a failure of the registry, a time limit, or too many requests."""
    return status >= 500 or status in _PASSING


def error_of(answer: Answer, address: str, purpose: Purpose) -> RegistryError:
    """The error of a response whose status is not one of success."""
    status = answer.status
    code, reason = answer.words()
    details: dict[str, Any] = {"subject": purpose.subject, "status": status, "code": code, "reason": reason}
    at, about = f"The schema registry at {address}", f" for {purpose.text}"
    said = f": {reason.rstrip('.')}." if reason else "."
    if status in (401, 403):
        kind = "does not accept the log-in" if status == 401 else "denies access"
        hint = "Check username and password, or token." if status == 401 else "The user lacks a right there."
        return RegistryAccessError(f"{at} {kind}{about} (status {status}){said}", hint=hint, **details)
    if code == _UNKNOWN_SUBJECT:
        return UnknownSubjectError(
            f"{at} has no {purpose.text}{said}",
            hint="Register the schema first, set auto_register=True, or check the subject strategy.",
            **details,
        )
    if code in _UNKNOWN_SCHEMA:
        return UnknownSchemaError(
            f"{at} has no such schema{about}{said}",
            hint="Register it there; a record may also come from a cluster with another registry.",
            **details,
        )
    if status == 409:
        return SchemaRejectedError(
            f"{at} does not accept the schema{about}, as it is not compatible with an earlier version{said}",
            is_incompatible=True,
            hint="Change the schema compatibly (new fields need defaults), or use another subject.",
            **details,
        )
    if status == 422 or (status == 400 and reason is not None):
        return SchemaRejectedError(f"{at} does not accept the schema{about}{said}", is_incompatible=False, **details)
    if is_passing(status):
        return RegistryAnswerError(f"{at} failed{about} (status {status}){said}", is_passing=True, **details)
    return RegistryAnswerError(f"{at} answered with status {status}{about}{said}", hint=_PATH_HINT, **details)

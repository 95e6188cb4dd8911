"""What the fake registry keeps: subjects, versions, ids, levels of compatibility."""

from __future__ import annotations

import hashlib
import json
import threading
import uuid
from collections.abc import Mapping
from typing import Any, Final, NamedTuple, TypeAlias

from aioprod.testing.schema_registry.formats import InvalidSchemaError, canonical, check, differences

__all__ = ["RejectedError", "Store"]

LEVELS: Final = tuple(
    f"{level}{transitive}" for level in ("BACKWARD", "FORWARD", "FULL") for transitive in ("", "_TRANSITIVE")
)

Reference: TypeAlias = tuple[str, str, int]
"""Name, subject, version."""


class RejectedError(Exception):
    """A request that gets an error: HTTP status, the registry's code, its message."""

    def __init__(self, status: int, code: int, message: str) -> None:
        super().__init__(message)
        self.body = {"error_code": code, "message": message}
        self.status = status


class Stored(NamedTuple):
    """A schema as it was registered first."""

    id: int
    guid: str
    kind: str
    text: str
    references: tuple[Reference, ...]

    def fields(self) -> dict[str, Any]:
        """The schema as it is answered; the type is left out for Avro, as Confluent's registry does."""
        fields: dict[str, Any] = {"schema": self.text, "guid": self.guid}
        if self.kind != "AVRO":
            fields["schemaType"] = self.kind
        if self.references:
            fields["references"] = [
                {"name": name, "subject": subject, "version": version} for name, subject, version in self.references
            ]
        return fields


class Store:
    """All of it; one thread at a time."""

    def __init__(self, first_id: int) -> None:
        self._first_id = first_id
        self._lock = threading.RLock()
        self._by_content: dict[tuple[Any, ...], Stored] = {}
        self._by_key: dict[int | str, Stored] = {}
        self._subjects: dict[str, list[Stored]] = {}
        self._levels: dict[str | None, str] = {None: "BACKWARD"}

    def subjects(self) -> list[str]:
        """All subjects."""
        return sorted(self._subjects)

    def versions(self, subject: str) -> list[int]:
        """The versions of a subject."""
        return list(range(1, len(self._of(subject)) + 1))

    def level(self, subject: str | None) -> str:
        """The level of compatibility of a subject, by default that of all."""
        return self._levels.get(subject, self._levels[None])

    def set_level(self, subject: str | None, level: object) -> str:
        """Set it, for one subject or for all that have none of their own."""
        if not isinstance(level, str) or level not in ("NONE", *LEVELS):
            raise RejectedError(
                422, 42203, f"Invalid compatibility level. Valid values are NONE and {', '.join(LEVELS)}"
            )
        self._levels[subject] = level
        return level

    def register(self, subject: str, given: Mapping[str, Any], *, normalize: bool) -> dict[str, Any]:
        """The schema's id in the subject, where it may be already."""
        with self._lock:
            kind, text, references = self._checked(given)
            content = kind, canonical(kind, text, normalize=normalize), references
            versions = self._subjects.get(subject, [])
            known = self._version_of(content, versions, normalize)
            if known is not None:
                return self._answer(subject, known)
            found = self._differences(subject, kind, text, references, versions)
            if found:
                reasons = "; ".join(found)
                raise RejectedError(
                    409,
                    409,
                    f"The new schema is incompatible with an earlier schema for subject '{subject}': {reasons}",
                )
            stored = self._by_content.get(content)
            if stored is None:
                digest = hashlib.md5(json.dumps(content).encode(), usedforsecurity=False).digest()
                stored = Stored(
                    self._first_id + len(self._by_content), str(uuid.UUID(bytes=digest)), kind, text, references
                )
                self._by_content[content] = stored
                self._by_key[stored.id] = self._by_key[stored.guid] = stored
            self._subjects.setdefault(subject, []).append(stored)
            return self._answer(subject, len(self._subjects[subject]))

    def find(self, subject: str, given: Mapping[str, Any], *, normalize: bool) -> dict[str, Any]:
        """The version of a subject that has this schema."""
        with self._lock:
            versions = self._of(subject)
            kind, text, references = self._checked(given)
            content = kind, canonical(kind, text, normalize=normalize), references
            known = self._version_of(content, versions, normalize)
            if known is None:
                raise RejectedError(404, 40403, "Schema not found")
            return self._answer(subject, known)

    def version(self, subject: str, version: str) -> dict[str, Any]:
        """A version of a subject by its number, or "latest"."""
        with self._lock:
            versions = self._of(subject)
            number = len(versions) if version == "latest" else int(version)
            if not 0 < number <= len(versions):
                raise RejectedError(404, 40402, f"Version {version} not found.")
            return self._answer(subject, number)

    def schema(self, key: int | str) -> dict[str, Any]:
        """The schema of an id or a GUID."""
        if key not in self._by_key:
            raise RejectedError(404, 40403, f"Schema {key} not found")
        return self._by_key[key].fields()

    def is_compatible(self, subject: str, given: Mapping[str, Any]) -> dict[str, Any]:
        """Whether the subject would accept the schema."""
        with self._lock:
            versions = self._of(subject)
            found = self._differences(subject, *self._checked(given), versions)
            return {"is_compatible": not found, "messages": found}

    def _of(self, subject: str) -> list[Stored]:
        if subject not in self._subjects:
            raise RejectedError(404, 40401, f"Subject '{subject}' not found.")
        return self._subjects[subject]

    def _answer(self, subject: str, version: int) -> dict[str, Any]:
        stored = self._subjects[subject][version - 1]
        return {"subject": subject, "id": stored.id, "version": version, **stored.fields()}

    def _version_of(self, content: tuple[Any, ...], versions: list[Stored], normalize: bool) -> int | None:
        for number, stored in enumerate(versions, 1):
            own = canonical(stored.kind, stored.text, normalize=normalize)
            if (stored.kind, own, stored.references) == content:
                return number
        return None

    def _differences(
        self, subject: str, kind: str, text: str, references: tuple[Reference, ...], versions: list[Stored]
    ) -> list[str]:
        level = self.level(subject)
        new = text, self._texts(references)
        compared = versions if level.endswith("_TRANSITIVE") else versions[-1:]
        found: list[str] = []
        for old in compared:
            if old.kind != kind:
                found.append(f"it is of type {kind}, not {old.kind}")
            else:
                found += differences(kind, level, new, (old.text, self._texts(old.references)))
        return found

    def _checked(self, given: Mapping[str, Any]) -> tuple[str, str, tuple[Reference, ...]]:
        kind, text = given.get("schemaType") or "AVRO", given.get("schema")
        if kind not in ("AVRO", "JSON", "PROTOBUF") or not isinstance(text, str):
            raise RejectedError(422, 42201, f"Invalid schema type {kind}, or no schema")
        try:
            references = tuple(
                (str(each["name"]), str(each["subject"]), int(each["version"]))
                for each in given.get("references") or ()
            )
            check(kind, text, self._texts(references))
        except (KeyError, TypeError, ValueError) as error:
            raise RejectedError(422, 42201, f"Invalid references: {error}") from error
        except InvalidSchemaError as error:
            raise RejectedError(422, 42201, f"Invalid schema: {error}") from error
        return kind, text, references

    def _texts(self, references: tuple[Reference, ...]) -> dict[str, str]:
        """Name -> text of the schemas that references name, and that these refer to."""
        texts: dict[str, str] = {}
        for name, subject, version in references:
            versions = self._subjects.get(subject, [])
            if not 0 < version <= len(versions):
                raise RejectedError(422, 42201, f"Reference {name!r}: no version {version} of subject {subject!r}")
            stored = versions[version - 1]
            texts |= self._texts(stored.references)
            texts[name] = stored.text
        return texts

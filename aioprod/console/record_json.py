"""Records as lines of JSON, for people and for the tools that read pipes."""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from typing import Any

from aioprod.console.escapes import json_text

__all__ = ["record_line", "text_or_base64"]


def record_line(
    fields: Mapping[str, Any], key: bytes | None, value: bytes | None, headers: Sequence[tuple[str, bytes | None]]
) -> bytes:
    """A JSON object with these fields and the record's data, and a line end; headers are a list of pairs."""
    document = {
        **fields,
        "key": text_or_base64(key),
        "value": text_or_base64(value),
        "headers": [[name, text_or_base64(data)] for name, data in headers],
    }
    return json_text(document, separators=(",", ":")).encode() + b"\n"


def text_or_base64(data: bytes | None) -> str | dict[str, str] | None:
    """Bytes that are UTF-8 as a string, others as {"base64": ...}."""
    if data is None:
        return None
    try:
        return data.decode()
    except UnicodeDecodeError:
        return {"base64": base64.b64encode(data).decode()}

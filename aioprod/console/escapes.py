"""Texts of others on a terminal and in JSON: no sign in them moves the cursor, begins a line or turns its direction."""

from __future__ import annotations

import json
import re
from typing import Any, Final

__all__ = ["escaped", "json_text"]

_CONTROLS: Final = re.compile(
    "[\x00-\x1f\x7f-\x9f\N{ARABIC LETTER MARK}\N{LEFT-TO-RIGHT MARK}\N{RIGHT-TO-LEFT MARK}"
    "\N{LINE SEPARATOR}-\N{RIGHT-TO-LEFT OVERRIDE}\N{LEFT-TO-RIGHT ISOLATE}-\N{POP DIRECTIONAL ISOLATE}]"
)


def escaped(text: str) -> str:
    """`text` with its control characters (C0, DEL, C1, line separators, marks of direction) as Python escapes them."""
    return _CONTROLS.sub(lambda found: found[0].encode("unicode_escape").decode(), text)


def json_text(document: Any, **options: Any) -> str:
    """`document` as JSON in UTF-8, and what JSON leaves raw of the control characters as `\\uXXXX`."""
    text = json.dumps(document, ensure_ascii=False, **options)
    return _CONTROLS.sub(lambda found: f"\\u{ord(found[0]):04x}", text)

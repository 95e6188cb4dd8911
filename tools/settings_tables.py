"""The tables of settings in the pages of the documentation, made from the configuration classes.

Each stands after its `<!-- settings: module:Class -->`; `tools.generate` writes them.
"""

from __future__ import annotations

import re
from pkgutil import resolve_name
from typing import Final

from aioprod.config import ClientConfig, settings_of
from aioprod.config._page import _settings_table

__all__ = ["filled", "settings_table"]

_PLACE: Final = re.compile(r"(<!-- settings: ([\w.:]+) -->)\n(?:\|.*\n)*")


def settings_table(config: type[ClientConfig]) -> str:
    """The settings that not all clients have, or not as this one, as a table in Markdown."""
    common = settings_of(ClientConfig)
    return _settings_table(
        {name: setting for name, setting in settings_of(config).items() if common.get(name) != setting}
    )


def filled(page: str) -> str:
    """The page with its tables as they have to be, whatever they were."""
    return _PLACE.sub(lambda place: f"{place[1]}\n{settings_table(resolve_name(place[2]))}", page)

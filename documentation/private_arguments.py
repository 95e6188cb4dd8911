"""The reference shows no argument whose name begins with an underscore: other rooms of aioprod give these."""

from __future__ import annotations

from typing import Any

import griffe

__all__ = ["PrivateArguments"]


class PrivateArguments(griffe.Extension):
    """Takes private arguments out of the signatures that griffe reads."""

    def on_function(self, *, func: griffe.Function, **_: Any) -> None:
        for name in [each.name for each in func.parameters if each.name.startswith("_")]:
            del func.parameters[name]

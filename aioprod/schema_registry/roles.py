"""Whether a serializer or deserializer has keys or values."""

from __future__ import annotations

from aioprod.errors import ConfigError
from aioprod.schema_registry.subjects import Role

__all__ = ["RoleOf"]


class RoleOf:
    """The role that a client gives to a serializer: "value" until it is set."""

    def __init__(self, owner: str) -> None:
        self._owner = owner
        self._is_set = False
        self.name: Role = "value"

    def set(self, is_key: bool) -> None:
        """Set it; raises ConfigError where it has another one, as subjects and headers depend on it."""
        name: Role = "key" if is_key else "value"
        if self._is_set and name != self.name:
            raise ConfigError(f"One {self._owner} is given for keys and for values: make one for each.")
        self._is_set = True
        self.name = name

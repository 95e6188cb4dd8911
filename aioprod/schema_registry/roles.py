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
        self._is_used = False
        self.name: Role = "value"

    def use(self) -> None:
        """Keep the role from now on, as a subject was named by it."""
        self._is_used = True

    def set(self, is_key: bool) -> None:
        """Set it; raises ConfigError where it has another one, as subjects and headers depend on it."""
        name: Role = "key" if is_key else "value"
        if self._is_set and name != self.name:
            raise ConfigError(f"One {self._owner} is given for keys and for values: make one for each.")
        if self._is_used and name != self.name:
            raise ConfigError(
                f"The {self._owner} was used for values before it is given for keys.",
                hint="Give it to its producer first, and call prepare after that.",
            )
        self._is_set = True
        self.name = name

"""Regular expressions that are matched in a time that grows with pattern and text: Python's `re` goes back, which may
take for ever ("^(a+)+$").

A pattern is parsed by `re`, so that it means what it means there, and becomes a small program. What has no choice in it
(literals, sets, anchors) stays a part that `re` matches; choices and repetitions are tried by `Pattern.is_in`, which
tries none twice at the same place of the text. Names of the program's instructions are those of Thompson's machine.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from re import _compiler, _constants, _parser  # type: ignore[attr-defined]
from typing import Any, Final, Literal, NamedTuple, TypeAlias

from aioprod.schema_registry.work import Steps

__all__ = ["Pattern", "Patterns", "UnboundedPatternError"]

_PROGRAM_MAX: Final = 10_000
_OF_A_SCHEMA_MAX: Final = 50_000
"""Instructions of all patterns of a schema; each takes some 100 microseconds to make, and 250 bytes."""
_SIZE_OF_STEP: Final = 32
"""How many characters a part without choices is compared with in a step."""

_ONE: Final = frozenset({_constants.LITERAL, _constants.NOT_LITERAL, _constants.ANY, _constants.IN})
_REPEATS: Final = frozenset({_constants.MAX_REPEAT, _constants.MIN_REPEAT})
_LOOKS: Final = {_constants.ASSERT: True, _constants.ASSERT_NOT: False}

_Kind: TypeAlias = Literal["plain", "split", "jump", "look", "end"]


class UnboundedPatternError(Exception):
    """A pattern that can't be matched in a bounded time, or is too large."""


class _Instruction(NamedTuple):
    """`match` and `width` (characters) are of a plain part. `other` is where a split or jump goes, or a look ends.

    A look continues behind its own program if that `wanted`, and matches or not, from `width` characters before.
    """

    kind: _Kind
    match: Any = None
    width: int = 0
    other: int = 0
    wanted: bool = True


class Patterns:
    """The patterns of a schema, each compiled once."""

    def __init__(self, documents: Iterable[Any] = ()) -> None:
        self._known: dict[str, Pattern | Exception] = {}
        self._of_properties: list[str] = []
        self._has_unevaluated = False
        self.instructions = 0
        waiting = list(documents)
        while waiting:
            node = waiting.pop()
            if isinstance(node, Mapping):
                self._add_all(node)
                waiting += node.values()
            elif isinstance(node, list):
                waiting += node

    def of(self, text: str) -> Pattern:
        """The pattern; raises re.error and UnboundedPatternError."""
        found = self._known.get(text)
        if found is None:
            found = self._known[text] = self._compiled(text)
        if isinstance(found, Exception):
            raise found.with_traceback(None)
        return found

    @property
    def unbounded(self) -> str | None:
        """A pattern with choices that jsonschema's own unevaluatedProperties would match by `re`; None without."""
        texts = self._of_properties if self._has_unevaluated else ()
        return next((text for text in texts if not self.of(text).is_plain), None)

    def _add_all(self, schema: Mapping[str, Any]) -> None:
        self._has_unevaluated = self._has_unevaluated or "unevaluatedProperties" in schema
        of_properties, own = schema.get("patternProperties"), schema.get("pattern")
        texts = list(of_properties) if isinstance(of_properties, Mapping) else []
        self._of_properties += texts
        for text in [*texts, own] if isinstance(own, str) else texts:
            if text not in self._known:
                self._known[text] = self._compiled(text)

    def _compiled(self, text: str) -> Pattern | Exception:
        """The pattern, or what is wrong with it, which is raised where a value is to be matched."""
        most = min(_PROGRAM_MAX, _OF_A_SCHEMA_MAX - self.instructions)
        try:
            pattern = Pattern(text, most)
        except UnboundedPatternError as error:
            self.instructions += max(most, 0)
            return error
        except Exception as error:  # re.error, and what else its parser raises.
            return error
        self.instructions += pattern.instructions
        return pattern


class Pattern:
    """A regular expression of Python; raises re.error and UnboundedPatternError."""

    def __init__(self, text: str, instructions_max: int = _PROGRAM_MAX) -> None:
        self._instructions_max = instructions_max
        tree = _parser.parse(text)
        self._state = tree.state
        self._program: list[_Instruction] = []
        self._emit_all(tree, tree.state.flags)
        self._add(_Instruction("end"))

    @property
    def instructions(self) -> int:
        """How large its program is."""
        return len(self._program)

    @property
    def is_plain(self) -> bool:
        """Whether there is no choice and no repetition in it, so that `re` has nothing to go back to."""
        return all(each.kind in ("plain", "end") for each in self._program)

    def is_in(self, text: str, steps: Steps) -> bool:
        """Whether the pattern matches somewhere in the text, as `re.search` says; raises what `steps` raises."""
        tried: set[tuple[int, int]] = set()
        return any(self._matches(0, start, text, steps, tried) for start in range(len(text) + 1))

    def _matches(self, at: int, place: int, text: str, steps: Steps, tried: set[tuple[int, int]]) -> bool:
        waiting = [(at, place)]
        while waiting:
            at, place = state = waiting.pop()
            if state in tried:
                continue
            tried.add(state)
            kind, match, width, other, wanted = self._program[at]
            steps.spend(1 + min(width, len(text)) // _SIZE_OF_STEP)
            if kind == "plain":
                found = match(text, place)
                if found is not None:
                    waiting.append((at + 1, found.end()))
            elif kind == "split":
                waiting += (other, place), (at + 1, place)
            elif kind == "jump":
                waiting.append((other, place))
            elif kind == "look":
                is_there = place >= width and self._matches(at + 1, place - width, text, steps, set())
                if is_there is wanted:
                    waiting.append((other, place))
            else:
                return True
        return False

    def _add(self, instruction: _Instruction) -> int:
        if len(self._program) >= self._instructions_max:
            raise UnboundedPatternError(
                f"its parts, repeated, are more than {_PROGRAM_MAX}, or those of all patterns than {_OF_A_SCHEMA_MAX}"
            )
        self._program.append(instruction)
        return len(self._program) - 1

    def _emit_all(self, items: Iterable[Any], flags: int) -> None:
        plain: list[Any] = []
        for item in items:
            if _is_plain(item):
                plain.append(item)
                continue
            self._emit_plain(plain, flags)
            plain = []
            self._emit(item, flags)
        self._emit_plain(plain, flags)

    def _emit_plain(self, items: list[Any], flags: int) -> None:
        if items:
            part = _parser.SubPattern(self._state, items)
            self._add(_Instruction("plain", _compiler.compile(part, flags).match, part.getwidth()[1]))

    def _emit(self, item: Any, flags: int) -> None:
        kind, given = item
        if kind in _REPEATS:
            least, most, inner = given
            self._emit_repeat(least, most, inner, flags)
        elif kind is _constants.SUBPATTERN:
            _, added, removed, inner = given
            self._emit_all(inner, (flags | added) & ~removed)
        elif kind is _constants.BRANCH:
            self._emit_branches(given[1], flags)
        elif kind in _LOOKS:
            direction, inner = given
            width = inner.getwidth()[1] if direction < 0 else 0
            look = self._add(_Instruction("look"))
            self._emit_all(inner, flags)
            end = self._add(_Instruction("end"))
            self._program[look] = _Instruction("look", width=width, other=end + 1, wanted=_LOOKS[kind])
        else:
            raise UnboundedPatternError(
                f"it has a {str(kind).lower()}, for which the text may have to be read again and again"
            )

    def _emit_repeat(self, least: int, most: Any, inner: Any, flags: int) -> None:
        for _ in range(least):
            self._emit_all(inner, flags)
        if most is _constants.MAXREPEAT:
            split = self._add(_Instruction("split"))
            self._emit_all(inner, flags)
            self._add(_Instruction("jump", other=split))
            self._program[split] = _Instruction("split", other=len(self._program))
            return
        splits = []
        for _ in range(most - least):
            splits.append(self._add(_Instruction("split")))
            self._emit_all(inner, flags)
        for split in splits:
            self._program[split] = _Instruction("split", other=len(self._program))

    def _emit_branches(self, branches: list[Any], flags: int) -> None:
        jumps = []
        for branch in branches[:-1]:
            split = self._add(_Instruction("split"))
            self._emit_all(branch, flags)
            jumps.append(self._add(_Instruction("jump")))
            self._program[split] = _Instruction("split", other=len(self._program))
        self._emit_all(branches[-1], flags)
        for jump in jumps:
            self._program[jump] = _Instruction("jump", other=len(self._program))


def _is_plain(item: Any) -> bool:
    """Whether `re` has nothing to choose."""
    kind, given = item
    if kind in _REPEATS:
        least, most, inner = given
        return bool(least == most and len(inner) == 1 and inner[0][0] in _ONE)
    return kind in _ONE or kind is _constants.AT

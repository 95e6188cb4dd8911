"""What was found, one line each, and what follows from all of it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Literal, NamedTuple, TypeAlias

from aioprod.errors import AioprodError

__all__ = ["Finding", "Findings", "Status"]

Status: TypeAlias = Literal["ok", "warning", "failed", "skipped"]


class Finding(NamedTuple):
    """The result of one check: of what, of which server or topic, in a sentence, and what to do."""

    check: str
    subject: str
    status: Status
    found: str
    advice: str | None = None

    def line(self) -> str:
        """The finding as text, its advice in a line of its own."""
        text = f"{self.status:<8} {self.check:<13} {self.subject}: {self.found}"
        return f"{text}\n{' ' * 22} -> {self.advice}" if self.advice else text


class Findings:
    """All findings in order; `show` gets each when it is final."""

    def __init__(self, show: Callable[[Finding], object]) -> None:
        self.all: list[Finding] = []
        self._show = show
        self._held: list[Finding] | None = None

    def add(self, check: str, subject: str, status: Status, found: str, advice: str | None = None) -> None:
        """Note one more."""
        finding = Finding(check, subject, status, found, advice)
        if self._held is not None:
            self._held.append(finding)
        else:
            self._keep(finding)

    def fail(self, check: str, subject: str, error: BaseException, advice: str | None = None) -> None:
        """Note a check that failed with this error."""
        if isinstance(error, AioprodError):
            self.add(check, subject, "failed", error.message, error.hint or advice)
        else:
            said = "no answer in time" if isinstance(error, TimeoutError) else str(error) or type(error).__name__
            self.add(check, subject, "failed", f"{said.rstrip('.')}.", advice)

    @contextmanager
    def held(self) -> Iterator[list[Finding]]:
        """Collect what is noted inside, to be shown later by `release`."""
        self._held = []
        try:
            yield self._held
        finally:
            self._held = None

    def release(self, findings: list[Finding], *, as_warnings: bool) -> None:
        """Show findings that were held; those that failed as warnings, where others make up for them."""
        for finding in findings:
            is_less = as_warnings and finding.status == "failed"
            self._keep(finding._replace(status="warning") if is_less else finding)

    @property
    def verdict(self) -> Status:
        """The worst of all: `failed`, `warning` or `ok`."""
        found = {finding.status for finding in self.all}
        return "failed" if "failed" in found else "warning" if "warning" in found else "ok"

    def _keep(self, finding: Finding) -> None:
        self.all.append(finding)
        self._show(finding)

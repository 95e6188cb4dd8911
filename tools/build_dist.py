"""What the sdist and the wheel get beside their files: an archive that is the same each time, and an SBOM."""

from __future__ import annotations

import gzip
import json
import os
import re
import tarfile
import tomllib
import uuid
from importlib.metadata import version
from pathlib import Path
from typing import Any

from setuptools.command.bdist_wheel import bdist_wheel
from setuptools.command.sdist import sdist

__all__ = ["ReproducibleSdist", "WheelWithSbom", "sbom"]

FIRST_ZIP_DATE = 315_532_800
"""1980-01-01, the time of all files unless SOURCE_DATE_EPOCH names another."""

_NAME = re.compile(r"[\w.-]+")


def source_date() -> int:
    """Seconds since 1970: the environment's SOURCE_DATE_EPOCH, as the Reproducible Builds project defines it."""
    return int(os.environ.get("SOURCE_DATE_EPOCH", FIRST_ZIP_DATE))


class ReproducibleSdist(sdist):
    """An sdist whose bytes depend on the sources only: sorted, without times, owners and rights of a checkout."""

    def make_archive(
        self,
        base_name: str | os.PathLike[str],
        format: str,  # noqa: A002 - the name that distutils gives it
        root_dir: Any = None,
        base_dir: str | None = None,
        owner: str | None = None,
        group: str | None = None,
    ) -> str:
        """Pack `base_dir` as .tar.gz; returns the archive's path."""
        if format != "gztar" or root_dir is not None or base_dir is None:
            return super().make_archive(os.fspath(base_name), format, root_dir, base_dir, owner, group)
        path = Path(f"{os.fspath(base_name)}.tar.gz")
        path.parent.mkdir(parents=True, exist_ok=True)
        when = source_date()

        def plain(entry: tarfile.TarInfo) -> tarfile.TarInfo:
            entry.mtime = when
            entry.uid = entry.gid = 0
            entry.uname = entry.gname = ""
            entry.mode = 0o755 if entry.isdir() or entry.mode & 0o100 else 0o644
            return entry

        with (
            path.open("wb") as file,
            gzip.GzipFile("", "wb", 9, file, mtime=when) as packed,
            tarfile.open(fileobj=packed, mode="w", format=tarfile.PAX_FORMAT) as archive,
        ):
            for found in sorted([Path(base_dir), *Path(base_dir).rglob("*")]):
                archive.add(found, str(found), recursive=False, filter=plain)
        return str(path)


class WheelWithSbom(bdist_wheel):
    """A wheel with a CycloneDX document about itself in its metadata (PEP 770)."""

    def egg2dist(self, egginfo_path: str, distinfo_path: str) -> None:
        """Make the .dist-info folder."""
        super().egg2dist(egginfo_path, distinfo_path)
        folder = Path(distinfo_path, "sboms")
        folder.mkdir()
        document = json.dumps(sbom(is_compiled=not self.root_is_pure), indent=1, sort_keys=True)
        folder.joinpath("aioprod.cdx.json").write_text(f"{document}\n")


def sbom(*, is_compiled: bool) -> dict[str, Any]:
    """The CycloneDX document: aioprod, what it needs to run, and Cython, whose code is in the compiled modules."""
    project = tomllib.loads(Path("pyproject.toml").read_text())["project"]
    own = _component(project["name"], project["version"], "library", project["license"])
    needed = [_requirement(text) for text in project["dependencies"]]
    inside = [_component("cython", version("cython"), "library", "Apache-2.0")] if is_compiled else []
    return {
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "serialNumber": f"urn:uuid:{uuid.uuid5(uuid.NAMESPACE_URL, own['purl'])}",
        "version": 1,
        "metadata": {"component": own},
        "components": [*needed, *inside],
        "dependencies": [{"ref": own["bom-ref"], "dependsOn": [each["bom-ref"] for each in needed]}],
    }


def _component(name: str, number: str, kind: str, licence: str) -> dict[str, Any]:
    purl = f"pkg:pypi/{name}@{number}"
    return {
        "type": kind,
        "name": name,
        "version": number,
        "purl": purl,
        "bom-ref": purl,
        "licenses": [{"license": {"id": licence}}],
    }


def _requirement(text: str) -> dict[str, Any]:
    """A dependency: which version is installed is the user's choice, within what is asked for."""
    match = _NAME.match(text)
    assert match is not None
    purl = f"pkg:pypi/{match[0]}"
    return {
        "type": "library",
        "name": match[0],
        "purl": purl,
        "bom-ref": purl,
        "scope": "required",
        "properties": [{"name": "aioprod:requirement", "value": text}],
    }

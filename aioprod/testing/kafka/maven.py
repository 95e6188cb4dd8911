"""Jars by their Maven coordinates: their dependencies, and fetching them concurrently with checksums.

`jgo` reads POMs and chooses versions as Maven does. The fetching is done here, since jgo treats a POM that it could not
fetch as one without dependencies, and only warns about a wrong checksum.

The SHA-256 of each file that this project fetches stands in `maven.sha256`, POMs included, so that no repository
decides what runs. A file that is not listed there, such as one of another release of Kafka, is compared with the
repository's own `.sha1` file.

Jars come from Maven's public repository, or from a mirror at `AIOPROD_MAVEN_REPOSITORY`, with user and password if it
requires them (`https://user:password@host/path`). The environment's `https_proxy` and `no_proxy` apply, and the
certificates that this Python trusts.
"""

from __future__ import annotations

import hashlib
import os
import ssl
import urllib.request
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final
from urllib.parse import unquote

import urllib3
from jgo.constants import MAVEN_CENTRAL_URL
from jgo.maven import Artifact, MavenContext, PythonResolver
from urllib3.exceptions import HTTPError, MaxRetryError
from urllib3.util import Retry, Timeout, Url, make_headers, parse_url

from aioprod.testing.errors import KafkaUnavailableError
from aioprod.testing.kafka.cache import Progress

__all__ = ["Coordinates", "fetch_jars"]

Coordinates = tuple[str, str, str]
"""Group, artifact, version."""

_SIDE_BY_SIDE: Final = 8
_RETRIES: Final = 4
_WAIT_S: Final = 0.5
"""Before the second retry; twice as long before each one after it."""
_READ_TIMEOUT_S: Final = 30.0


def listed() -> dict[str, str]:
    """The SHA-256 of files by their path in every repository."""
    lines = Path(__file__).with_name("maven.sha256").read_text().splitlines()
    return {path: digest for digest, path in map(str.split, lines)}


def fetch_jars(wanted: Sequence[Coordinates], folder: Path, progress: Progress, *, transitive: bool) -> None:
    """Fetch the jars of `wanted` into `folder`, and if `transitive` their runtime dependencies.

    Raises `KafkaUnavailableError` when one of them can't be fetched.
    """
    name = " ".join(wanted[0][1:])
    try:
        address = os.environ.get("AIOPROD_MAVEN_REPOSITORY") or MAVEN_CENTRAL_URL
        repository = Repository(address, f"The jars of {name}", listed())
    except HTTPError:
        # Without urllib3's own message: it has the whole address, which may contain a password.
        raise KafkaUnavailableError(
            f"The jars of {name} could not be fetched: the repository's address, or the proxy's, can't be used.",
            hint="Write AIOPROD_MAVEN_REPOSITORY and https_proxy as https://[user:password@]host[:port]/path.",
        ) from None
    progress(f"fetching {name}{' and its dependencies' if transitive else ''} (once)")
    with TemporaryDirectory(dir=folder, prefix="poms-") as poms:
        resolver = Resolver(repository, name, progress)
        context = MavenContext(resolver, repo_cache=Path(poms), remote_repos={"": repository.address})
        # "!": otherwise jgo applies the versions that they manage to all other artifacts, which Maven does not.
        dependencies = [context.create_dependency(f"{':'.join(coordinates)}!") for coordinates in wanted]
        if transitive:
            chosen, needed = resolver.resolve(dependencies)
            dependencies = [dependency for dependency in (*chosen, *needed) if dependency.type != "pom"]
    paths = [path_of(dependency.artifact) for dependency in dependencies]
    with ThreadPoolExecutor(_SIDE_BY_SIDE, "aioprod-jars") as threads:
        try:
            for count, (path, content) in enumerate(zip(paths, threads.map(repository.fetch, paths), strict=True), 1):
                (folder / Path(path).name).write_bytes(content)
                progress(f"{name}: fetched {Path(path).name}, {count} of {len(paths)}")
        except BaseException:
            threads.shutdown(cancel_futures=True)
            raise


def path_of(artifact: Artifact) -> str:
    """The path of this file in every repository."""
    return f"{artifact.component.path_prefix.as_posix()}/{artifact.filename}"


class Resolver(PythonResolver):
    """jgo's resolver, with the POMs fetched by a `Repository`, whose errors propagate."""

    def __init__(self, repository: Repository, name: str, progress: Progress) -> None:
        super().__init__()
        self._repository = repository
        self._name = name
        self._progress = progress

    def download(self, artifact: Artifact) -> Path:
        """Fetch a file into the context's folder."""
        self._progress(f"{self._name}: dependencies of {artifact.artifactId} {artifact.version}")
        target = artifact.cached_path
        assert target is not None
        content = self._repository.fetch(path_of(artifact))
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(content)
        return target


class Repository:
    """A Maven repository; thread-safe. `wanted` names what is fetched, for errors; `digests` has SHA-256 by path."""

    def __init__(self, address: str, wanted: str, digests: Mapping[str, str]) -> None:
        url = parse_url(address.rstrip("/"))
        self.address = url._replace(auth=None).url
        self._wanted = wanted
        self._digests = digests
        self._headers = make_headers(user_agent="aioprod", basic_auth=unquote(url.auth) if url.auth else None)
        self._http = _connections_to(url)

    def fetch(self, path: str) -> bytes:
        """The content of a file; raises KafkaUnavailableError if it is not what its checksum says."""
        if (digest := self._digests.get(path)) is not None:
            content = self._get(path)
            if hashlib.sha256(content).hexdigest() != digest:
                raise self._error(path, "its SHA-256 is not the one that aioprod has for it")
            return content
        content, checksum = self._get(path), self._get(f"{path}.sha1")
        # In some files the name of the jar follows the checksum.
        if hashlib.sha1(content, usedforsecurity=False).hexdigest() not in checksum.decode("latin-1").lower().split():
            raise self._error(path, "its checksum is not the one in the .sha1 file")
        return content

    def _get(self, path: str) -> bytes:
        try:
            answer = self._http.request("GET", f"{self.address}/{path}", headers=self._headers)
        except HTTPError as error:
            raise self._error(path, str(error.reason if isinstance(error, MaxRetryError) else error)) from error
        if answer.status != 200:
            raise self._error(path, f"the server answers {answer.status} {answer.reason or ''}".rstrip())
        return answer.data

    def _error(self, path: str, reason: str) -> KafkaUnavailableError:
        return KafkaUnavailableError(
            f"{self._wanted} could not be fetched: {self.address}/{path}: {reason}.",
            hint="Let this machine reach a Maven repository (https_proxy, AIOPROD_MAVEN_REPOSITORY), or use Docker.",
        )


def _connections_to(url: Url) -> urllib3.PoolManager:
    """A pool that keeps connections and retries, through the environment's proxy for this host if there is one."""
    proxy = urllib.request.getproxies().get(url.scheme or "")
    arguments: dict[str, Any] = {
        "maxsize": _SIDE_BY_SIDE,
        "ssl_context": ssl.create_default_context(),
        "timeout": Timeout(_READ_TIMEOUT_S),
        "retries": Retry(
            _RETRIES, backoff_factor=_WAIT_S, status_forcelist=(429, 500, 502, 503, 504), raise_on_status=False
        ),
    }
    if not proxy or urllib.request.proxy_bypass(url.netloc or ""):
        return urllib3.PoolManager(**arguments)
    proxy_url = parse_url(proxy if "//" in proxy else f"http://{proxy}")
    credentials = make_headers(proxy_basic_auth=unquote(proxy_url.auth)) if proxy_url.auth else None
    return urllib3.ProxyManager(proxy_url._replace(auth=None).url, proxy_headers=credentials, **arguments)

"""Jars by their Maven coordinates: which ones a program needs, and fetching them, several at a time and checked.

`jgo` reads POMs and chooses versions as Maven does. The fetching is done here, since jgo takes a POM that did not come
for one that needs nothing, and a wrong checksum for a warning.

Jars come from Maven's public repository, or from the one at `AIOPROD_MAVEN_REPOSITORY`, the address of a mirror, with
user and password where it asks for them (`https://user:password@host/path`). The environment's `https_proxy` and
`no_proxy` are heard; the certificates are those that this Python trusts.
"""

from __future__ import annotations

import hashlib
import os
import ssl
import urllib.request
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
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

SIDE_BY_SIDE = 8
RETRIES = 4
WAIT_S = 0.5
"""Before the second retry; twice as long before each one after it."""
SILENCE_S_MAX = 30.0


def fetch_jars(wanted: Sequence[Coordinates], folder: Path, tell: Progress, *, transitive: bool) -> None:
    """Fill `folder` with the jars of `wanted`, and if `transitive` with all that they need at run time.

    Raises `KafkaUnavailableError` when one of them can't be had.
    """
    name = " ".join(wanted[0][1:])
    try:
        repository = Repository(os.environ.get("AIOPROD_MAVEN_REPOSITORY") or MAVEN_CENTRAL_URL, f"the jars of {name}")
    except HTTPError:
        # Without what urllib3 says: it shows the whole address, which may have a password in it.
        raise KafkaUnavailableError(
            f"The jars of {name} could not be fetched: the repository's address, or the proxy's, can't be used.",
            hint="write AIOPROD_MAVEN_REPOSITORY and https_proxy as https://[user:password@]host[:port]/path.",
        ) from None
    tell(f"fetching {name}{' and what it needs' if transitive else ''} (once)")
    with TemporaryDirectory(dir=folder, prefix="poms-") as poms:
        resolver = Resolver(repository, name, tell)
        context = MavenContext(resolver, repo_cache=Path(poms), remote_repos={"": repository.address})
        # With "!", or jgo lets the versions that they manage hold for everybody, which Maven does not.
        dependencies = [context.create_dependency(f"{':'.join(coordinates)}!") for coordinates in wanted]
        if transitive:
            chosen, needed = resolver.resolve(dependencies)
            dependencies = [dependency for dependency in (*chosen, *needed) if dependency.type != "pom"]
    paths = [path_of(dependency.artifact) for dependency in dependencies]
    with ThreadPoolExecutor(SIDE_BY_SIDE, "aioprod-jars") as threads:
        try:
            for count, (path, content) in enumerate(zip(paths, threads.map(repository.fetch, paths), strict=True), 1):
                (folder / Path(path).name).write_bytes(content)
                tell(f"{name}: fetched {Path(path).name}, {count} of {len(paths)}")
        except BaseException:
            threads.shutdown(cancel_futures=True)
            raise


def path_of(artifact: Artifact) -> str:
    """Where every repository has this file."""
    return f"{artifact.component.path_prefix.as_posix()}/{artifact.filename}"


class Resolver(PythonResolver):
    """jgo's resolver, with the POMs fetched by a `Repository`, whose errors it lets through."""

    def __init__(self, repository: Repository, name: str, tell: Progress) -> None:
        super().__init__()
        self._repository = repository
        self._name = name
        self._tell = tell

    def download(self, artifact: Artifact) -> Path:
        """Fetch a file into the context's folder."""
        self._tell(f"{self._name}: what {artifact.artifactId} {artifact.version} needs")
        target = artifact.cached_path
        assert target is not None
        content = self._repository.fetch(path_of(artifact))
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(content)
        return target


class Repository:
    """A Maven repository, reached as this Python reaches the network; for any number of threads."""

    def __init__(self, address: str, wanted: str) -> None:
        url = parse_url(address.rstrip("/"))
        self.address = url._replace(auth=None).url
        self._wanted = wanted
        self._headers = make_headers(user_agent="aioprod", basic_auth=unquote(url.auth) if url.auth else None)
        self._http = _connections_to(url)

    def fetch(self, path: str) -> bytes:
        """The content of a file that has the checksum of the `.sha1` beside it."""
        content, checksum = self._get(path), self._get(f"{path}.sha1")
        # Some are followed by the name of the file.
        if hashlib.sha1(content, usedforsecurity=False).hexdigest() not in checksum.decode("latin-1").lower().split():
            raise self._error(path, "it has not the checksum that is beside it")
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
            hint="let this machine reach a Maven repository (https_proxy, AIOPROD_MAVEN_REPOSITORY), or use Docker.",
        )


def _connections_to(url: Url) -> urllib3.PoolManager:
    """Connections that are kept and tried again, through the proxy that the environment names for this host."""
    proxy = urllib.request.getproxies().get(url.scheme or "")
    arguments: dict[str, Any] = {
        "maxsize": SIDE_BY_SIDE,
        "ssl_context": ssl.create_default_context(),
        "timeout": Timeout(SILENCE_S_MAX),
        "retries": Retry(
            RETRIES, backoff_factor=WAIT_S, status_forcelist=(429, 500, 502, 503, 504), raise_on_status=False
        ),
    }
    if not proxy or urllib.request.proxy_bypass(url.netloc or ""):
        return urllib3.PoolManager(**arguments)
    there = parse_url(proxy if "//" in proxy else f"http://{proxy}")
    credentials = make_headers(proxy_basic_auth=unquote(there.auth)) if there.auth else None
    return urllib3.ProxyManager(there._replace(auth=None).url, proxy_headers=credentials, **arguments)

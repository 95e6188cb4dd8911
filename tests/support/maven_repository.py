"""A Maven repository on loopback with failures on demand; it can also be the proxy before one."""

from __future__ import annotations

import hashlib
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import urlsplit


class MavenRepository:
    """Files by path, each with a checksum file, and the requested paths."""

    def __init__(self) -> None:
        self.files: dict[str, bytes] = {}
        self.cut: Counter[str] = Counter()
        """By path, how often the connection closes in the middle of the file."""
        self.unavailable: Counter[str] = Counter()
        """By path, how often the answer is 503."""
        self.requested: list[str] = []
        self.authorizations: set[tuple[str | None, str | None]] = set()
        """The Authorization and Proxy-Authorization headers of requests."""
        self.address = ""

    def add(
        self,
        coordinates: str,
        *needs: str,
        managed: tuple[str, ...] = (),
        parent: str | None = None,
        properties: str = "",
        jar: bool = True,
    ) -> None:
        """Publish `group:artifact:version` that needs others; `needs` may end with a scope or `optional`."""
        group, artifact, version = coordinates.split(":")
        pom = f"<project><modelVersion>4.0.0</modelVersion>{_names(coordinates)}"
        if parent is not None:
            pom += f"<parent>{_names(parent)}</parent>"
        pom += f"<properties>{properties}</properties>"
        pom += f"<dependencyManagement><dependencies>{''.join(map(_dependency, managed))}"
        pom += f"</dependencies></dependencyManagement><dependencies>{''.join(map(_dependency, needs))}</dependencies>"
        place = f"{group.replace('.', '/')}/{artifact}/{version}/{artifact}-{version}"
        self.put(f"{place}.pom", f"{pom}</project>".encode())
        if jar:
            self.put(f"{place}.jar", f"jar of {coordinates}".encode())

    def put(self, path: str, content: bytes) -> None:
        """Publish one file."""
        self.files[path] = content
        self.files[f"{path}.sha1"] = hashlib.sha1(content).hexdigest().encode()

    @contextmanager
    def serving(self) -> Iterator[None]:
        """Answer at `address` meanwhile."""
        with ThreadingHTTPServer(("127.0.0.1", 0), self._handler()) as server:
            server.daemon_threads = True
            self.address = f"http://127.0.0.1:{server.server_address[1]}/m2"
            thread = threading.Thread(target=server.serve_forever, args=(0.01,))
            thread.start()
            try:
                yield
            finally:
                server.shutdown()
                thread.join()

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        repository = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            timeout = 0.5  # a kept connection does not keep its thread

            def do_GET(self) -> None:
                repository._answer(self)

            def log_message(self, format: str, *args: object) -> None:  # noqa: A002  # the base class calls it so
                """Log nothing, also no timeout of a kept connection."""

        return Handler

    def _answer(self, request: BaseHTTPRequestHandler) -> None:
        self.requested.append(request.path)
        self.authorizations.add((request.headers["Authorization"], request.headers["Proxy-Authorization"]))
        path = urlsplit(request.path).path.removeprefix("/m2/")
        content, status = self.files.get(path, b"no such file"), 200 if path in self.files else 404
        if is_unavailable := self.unavailable[path] > 0:
            self.unavailable[path] -= 1
            content, status = b"come back later", 503
        request.send_response(status)
        request.send_header("Content-Length", str(len(content)))
        request.end_headers()
        if not is_unavailable and self.cut[path] > 0:
            self.cut[path] -= 1
            content = content[: len(content) // 2]
            request.close_connection = True
        request.wfile.write(content)


def _names(coordinates: str) -> str:
    group, artifact, *version = coordinates.split(":")
    names = f"<groupId>{group}</groupId><artifactId>{artifact}</artifactId>"
    return names + "".join(f"<version>{number}</version>" for number in version[:1] if number)


def _dependency(text: str) -> str:
    kind = "".join(text.split(":")[3:])
    extra = {
        "": "",
        "optional": "<optional>true</optional>",
        "import": "<scope>import</scope><type>pom</type>",
    }.get(kind, f"<scope>{kind}</scope>")
    return f"<dependency>{_names(text)}{extra}</dependency>"

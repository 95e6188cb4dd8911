"""`FakeSchemaRegistry`: Confluent's REST API in the test's process."""

from __future__ import annotations

import json
import ssl
import threading
from base64 import b64encode
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from types import TracebackType
from typing import Any, Self
from urllib.parse import parse_qs, unquote, urlsplit

from aioprod.errors import UsageError
from aioprod.testing.schema_registry.formats import InvalidSchemaError
from aioprod.testing.schema_registry.routes import answer
from aioprod.testing.schema_registry.server import Request, Response, Server
from aioprod.testing.schema_registry.store import RejectedError, Store

__all__ = ["FakeSchemaRegistry"]


class FakeSchemaRegistry:
    """A schema registry at a port of 127.0.0.1, for clients of any kind; use it with `with` or `async with`.

    It has the calls that serializers need: register, look up, by id, GUID and version, compatibility and its levels.
    Compatibility is checked for Avro alone. Ids begin with `first_id`. With `username` and `password`, or `token`, it
    wants that log-in; with `tls` it has a certificate of its own CA, whose file is `ca_file`, and with
    `client_certificates` it wants one of that CA, as in `client_file`. With `guids=False` it gives no GUIDs, as older
    registries.

    `requests` counts the requests that came, as `requests["POST /subjects/orders-value/versions"]`. `down`, `up`,
    `fail` and `paused` are its faults. All methods may be called from any thread.
    """

    def __init__(
        self,
        *,
        first_id: int = 1,
        username: str | None = None,
        password: str | None = None,
        token: str | None = None,
        tls: bool = False,
        client_certificates: bool = False,
        guids: bool = True,
    ) -> None:
        self.requests: Counter[str] = Counter()
        self._log_in = f"Bearer {token}" if token is not None else None
        if username is not None:
            log_in = f"{username}:{password or ''}"
            self._log_in = f"Basic {b64encode(log_in.encode()).decode()}"
        self._guids = guids
        self._store = Store(first_id)
        self._failures: list[Response] = []
        self._lock = threading.Lock()
        self._files: TemporaryDirectory[str] | None = None
        context = self._with_certificates(client_certificates) if tls or client_certificates else None
        self._scheme = "http" if context is None else "https"
        self._server = Server(self._respond, context)

    def __repr__(self) -> str:
        return f"FakeSchemaRegistry({self.url!r})"

    @property
    def url(self) -> str:
        """Its URL, the same after `down` and `up`."""
        return f"{self._scheme}://127.0.0.1:{self._server.port}"

    @property
    def ca_file(self) -> str:
        """The file with the CA of its certificate."""
        return str(self._folder / "ca.pem")

    @property
    def client_file(self) -> str:
        """A file with a client's certificate and its key."""
        return str(self._folder / "client.pem")

    def __enter__(self) -> Self:
        self._server.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.stop()
        if self._files is not None:
            self._files.cleanup()

    async def __aenter__(self) -> Self:
        return self.__enter__()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.__exit__(kind, error, trace)

    def down(self) -> None:
        """Close the port and cut all connections; what was registered is kept, requests that are paused are dropped."""
        self._server.stop()

    def up(self) -> None:
        """Listen again."""
        self._server.start()

    def fail(self, status: int = 500, *, times: int = 1, content: Any = None) -> None:
        """Answer the next requests with this status; `content` is sent as JSON, or as it is if it is a str.

        Raises UsageError for what can't be an answer.
        """
        if type(status) is not int or not 200 <= status < 600 or type(times) is not int or times < 1:
            raise UsageError(
                f"fail({status!r}, times={times!r}): give a status from 200 to 599, and how often, from 1."
            )
        try:
            json.dumps(content)
        except (TypeError, ValueError, RecursionError) as error:
            raise UsageError(
                f"The content of fail() can't be sent as JSON: {error}.", hint="Give what JSON knows, or a str."
            ) from error
        body = {"error_code": status, "message": "It fails as the test wants"} if content is None else content
        with self._lock:
            self._failures += [Response(status, body)] * times

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Requests that come in the block are answered after it; `down` in it drops those that came before."""
        self._server.set_paused(True)
        try:
            yield
        finally:
            self._server.set_paused(False)

    def register(self, subject: str, schema: str, kind: str = "AVRO") -> int:
        """Register a schema without a request; returns its id. Raises ValueError for one that is not accepted."""
        try:
            known = self._store.register(subject, {"schema": schema, "schemaType": kind}, normalize=False)
        except RejectedError as error:
            raise ValueError(str(error)) from error
        return int(known["id"])

    def set_compatibility(self, level: str, subject: str | None = None) -> None:
        """Set the level of a subject, or of all: NONE, BACKWARD (at first), FORWARD, FULL, also with _TRANSITIVE.

        Raises ValueError for any other.
        """
        try:
            self._store.set_level(subject, level)
        except RejectedError as error:
            raise ValueError(str(error)) from error

    def _respond(self, request: Request) -> Response:
        target = urlsplit(request.target)
        # A slash in a subject is no slash of the path.
        path = "/".join(unquote(part).replace("/", "%2F") for part in target.path.split("/"))
        with self._lock:
            self.requests[f"{request.method} {path.replace('%2F', '/')}"] += 1
            failure = self._failures.pop(0) if self._failures else None
        request.wait()
        if failure is not None:
            return failure
        if self._log_in is not None and request.authorization != self._log_in:
            return Response(401, {"error_code": 401, "message": "Unauthorized"})
        normalize = parse_qs(target.query).get("normalize") == ["true"]
        try:
            body = json.loads(request.body) if request.body else {}
            found = answer(self._store, request.method, path, body, normalize=normalize)
        except RejectedError as error:
            return Response(error.status, error.body)
        except (ValueError, AttributeError, InvalidSchemaError) as error:
            return Response(422, {"error_code": 42201, "message": f"Invalid request: {error}"})
        if not self._guids and isinstance(found, dict):
            found.pop("guid", None)
        return Response(200, found)

    @property
    def _folder(self) -> Path:
        if self._files is None:
            raise ValueError("The registry has no certificates: it was made without tls=True.")
        return Path(self._files.name)

    def _with_certificates(self, client_certificates: bool) -> ssl.SSLContext:
        from aioprod.testing.certificates import LOCAL_HOSTS, Authority

        self._files = TemporaryDirectory(prefix="aioprod-registry-")
        authority = Authority()
        (self._folder / "ca.pem").write_text(authority.certificate)
        (self._folder / "client.pem").write_text(authority.issue("client").store)
        server = self._folder / "server.pem"
        server.write_text(authority.issue("registry", LOCAL_HOSTS).store)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(server)
        if client_certificates:
            context.load_verify_locations(self._folder / "ca.pem")
            context.verify_mode = ssl.CERT_REQUIRED
        return context

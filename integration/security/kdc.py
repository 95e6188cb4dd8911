"""Debian's KDC (packages krb5-kdc and krb5-admin-server) on loopback, in a folder, with keytab files."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

__all__ = ["REALM", "Kdc", "missing_for_kerberos", "running_kdc"]

REALM: Final = "AIOPROD.TEST"
_PATIENCE_S: Final = 30.0
_TRIES: Final = 3


def missing_for_kerberos() -> str | None:
    """What this machine lacks for these tests, None if nothing."""
    for tool in ("krb5kdc", "kdb5_util", "kadmin.local"):
        if _found(tool) is None:
            return f"{tool} is not installed"
    try:
        import gssapi  # noqa: F401 - whether it is there
    except ImportError:
        return "the package gssapi is not installed"
    return None


class Kdc:
    """Where its files are, and a way to make keys."""

    def __init__(self, folder: Path, port: int) -> None:
        self.configuration = folder / "krb5.conf"
        self.environment = {"KRB5_CONFIG": str(self.configuration), "KRB5_KDC_PROFILE": str(folder / "kdc.conf")}
        self._folder = folder
        self.configuration.write_text(
            f"[libdefaults]\n default_realm = {REALM}\n dns_lookup_realm = false\n dns_lookup_kdc = false\n"
            " rdns = false\n dns_canonicalize_hostname = false\n udp_preference_limit = 1\n"
            f"[realms]\n {REALM} = {{\n  kdc = 127.0.0.1:{port}\n }}\n"
        )
        (folder / "kdc.conf").write_text(
            f"[kdcdefaults]\n kdc_listen = 127.0.0.1:{port}\n kdc_tcp_listen = 127.0.0.1:{port}\n"
            f"[realms]\n {REALM} = {{\n  database_name = {folder}/principal\n  key_stash_file = {folder}/stash\n"
            "  supported_enctypes = aes256-cts-hmac-sha1-96:normal\n }\n"
            f"[logging]\n kdc = FILE:{folder}/kdc.log\n"
        )
        self._tool("kdb5_util", "create", "-s", "-r", REALM, "-P", "master")

    def keytab(self, principal: str) -> Path:
        """A new principal of the realm, and its key in a file."""
        path = self._folder / f"{principal.replace('/', '-')}.keytab"
        self._tool("kadmin.local", "-q", f"addprinc -randkey {principal}@{REALM}")
        self._tool("kadmin.local", "-q", f"ktadd -k {path} {principal}@{REALM}")
        return path

    def _tool(self, name: str, *arguments: str) -> None:
        command = [_found(name) or name, *arguments]
        subprocess.run(command, env=os.environ | self.environment, check=True, capture_output=True, timeout=60)


@contextmanager
def running_kdc(folder: Path) -> Iterator[Kdc]:
    """A KDC that answers, with an empty realm."""
    kdc, process = _started(folder)
    try:
        yield kdc
    finally:
        process.kill()
        process.wait()


def _started(folder: Path) -> tuple[Kdc, subprocess.Popen[bytes]]:
    said = ""
    for number in range(_TRIES):
        own = folder / str(number)
        own.mkdir()
        log = own / "kdc.log"
        with socket.socket() as unused:
            unused.bind(("127.0.0.1", 0))
            kdc = Kdc(own, unused.getsockname()[1])
        process = subprocess.Popen(
            [_found("krb5kdc") or "krb5kdc", "-n"],
            env=os.environ | kdc.environment,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        if _serves(process, log):
            return kdc, process
        # Somebody else may have taken the port meanwhile.
        process.kill()
        process.wait()
        said = _text(log)
    raise AssertionError(f"The KDC does not start: {said or 'it has no log.'}")


def _serves(process: subprocess.Popen[bytes], log: Path) -> bool:
    """Whether it says so at last: at its port somebody else might answer."""
    ends = time.monotonic() + _PATIENCE_S
    while process.poll() is None and time.monotonic() < ends:
        if "commencing operation" in _text(log):
            return True
        time.sleep(0.05)
    return False


def _text(log: Path) -> str:
    return log.read_text() if log.exists() else ""


def _found(tool: str) -> str | None:
    return shutil.which(tool, path=f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin")

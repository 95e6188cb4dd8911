"""Stores that Java's keytool writes, and the tests' own stores, which keytool reads."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from aioprod import Producer
from aioprod.net.tls.certificates import certificates_in
from aioprod.net.tls.stores import key_store_of, trust_store_of
from aioprod.testing.certificates import Authority
from aioprod.testing.kafka.cache import run_tool
from aioprod.testing.kafka.jars import java
from integration.security.secured import Secured
from integration.support.clusters import MakeTopic
from tests.support.java_stores import PASSWORD, jks, pkcs12

pytestmark = pytest.mark.timeout(120)


def keytool(*options: str | Path) -> str:
    # Not the program of that name: a runtime without a JDK has none.
    tool: list[str | Path] = [java(), "-Duser.language=en", "-m", "java.base/sun.security.tools.keytool.Main"]
    return run_tool([*tool, *options, "-storepass", PASSWORD])


@pytest.mark.parametrize("kind", ["JKS", "PKCS12"])
async def test_a_client_with_stores_of_keytool(
    certified: Secured, make_topic: MakeTopic, tmp_path: Path, kind: str
) -> None:
    topic = await make_topic(certified.cluster)
    authority = certified.security.authority
    pem, ours, trust, own = (tmp_path / name for name in ("ca.pem", "ours", "trust.jks", "own.p12"))
    pem.write_text(authority.certificate)
    ours.write_bytes(pkcs12(authority.issue("alice")))
    keytool("-importcert", "-noprompt", "-alias", "ca", "-file", pem, "-keystore", trust, "-storetype", kind)
    source = ("-srckeystore", ours, "-srcstorepass", PASSWORD)
    keytool("-importkeystore", *source, "-destkeystore", own, "-deststoretype", "PKCS12")
    options: dict[str, Any] = {name: value for name, value in certified.options("alice").items() if "ssl_" not in name}
    options |= {
        "ssl_truststore_location": str(trust),
        "ssl_truststore_password": PASSWORD,
        "ssl_truststore_type": "JKS",
    }
    options |= {"ssl_keystore_location": str(own), "ssl_keystore_password": PASSWORD, "ssl_keystore_type": "PKCS12"}
    async with Producer(certified.servers, **options) as producer:
        await producer.send(topic, b"by stores")
    assert [record.value for record in await certified.stored(topic)] == [b"by stores"]


def test_keytool_reads_the_stores_of_the_tests(tmp_path: Path) -> None:
    authority = Authority()
    (ca,) = certificates_in(authority.certificate)
    own = authority.issue("alice")
    (tmp_path / "trust").write_bytes(jks([ca]))
    (tmp_path / "own").write_bytes(pkcs12(own))
    assert "trustedCertEntry" in keytool("-list", "-keystore", tmp_path / "trust")
    assert "PrivateKeyEntry" in keytool("-list", "-keystore", tmp_path / "own")
    assert trust_store_of("S", (tmp_path / "trust").read_bytes(), PASSWORD).certificates == [ca]
    assert key_store_of("S", (tmp_path / "own").read_bytes(), PASSWORD).chain == certificates_in(own.chain)

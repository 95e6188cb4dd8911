"""The settings of TLS and log-ins: which go together, what is missing, and that no secret is ever shown."""

from __future__ import annotations

import ssl
import traceback
from pathlib import Path
from typing import Any

import pytest

from aioprod import OAuthToken
from aioprod.config import Password, ProducerConfig, Tokens, credentials_of
from aioprod.config._jaas import parse_jaas
from aioprod.config._secrets import secret_of
from aioprod.errors import ConfigError

PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule"
SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule"
MSK = "software.amazon.msk.auth.iam"
MSK_HANDLER = f"{MSK}.IAMOAuthBearerLoginCallbackHandler"
IAM = {"security_protocol": "SASL_SSL", "sasl_mechanism": "AWS_MSK_IAM"}
KRB5 = "com.sun.security.auth.module.Krb5LoginModule required"
KERBEROS = {"security_protocol": "SASL_SSL", "sasl_mechanism": "GSSAPI", "sasl_kerberos_service_name": "kafka"}
SECRET = "hunter2"


def config(**options: Any) -> ProducerConfig:
    return ProducerConfig.from_options(bootstrap_servers="localhost:9092", **options)


def password_of(**options: Any) -> tuple[str, str, str, bool]:
    credentials = credentials_of(config(**options))
    assert isinstance(credentials, Password)
    return credentials.mechanism, credentials.username, credentials.password, credentials.is_token


def token() -> OAuthToken:
    return OAuthToken("abc", 1.0)


LOGIN = {"security_protocol": "SASL_SSL", "sasl_mechanism": "PLAIN", "sasl_username": "alice", "sasl_password": SECRET}


def test_a_user_and_a_password() -> None:
    assert password_of(**LOGIN) == ("PLAIN", "alice", SECRET, False)
    assert password_of(**LOGIN | {"sasl_mechanism": "scram-sha-512"}) == ("SCRAM-SHA-512", "alice", SECRET, False)


def test_the_properties_file_of_a_cloud(tmp_path: Path) -> None:
    path = tmp_path / "client.properties"
    path.write_text(
        "# Required connection configs for Kafka producer, consumer, and admin\n"
        "bootstrap.servers=pkc-1.eu.example.com:9092\n"
        "security.protocol=SASL_SSL\n"
        f"sasl.jaas.config={PLAIN} required username='KEY' password='{SECRET}';\n"
        "sasl.mechanism=PLAIN\n"
        "client.dns.lookup=use_all_dns_ips\n"
        "acks=all\n"
    )
    found = credentials_of(ProducerConfig.from_properties(path))
    assert isinstance(found, Password)
    assert (found.mechanism, found.username, found.password) == ("PLAIN", "KEY", SECRET)


def test_the_mechanism_is_known_from_the_module() -> None:
    jaas = f'{PLAIN} required username="alice" password="{SECRET}";'
    assert password_of(security_protocol="SASL_PLAINTEXT", sasl_jaas_config=jaas)[0] == "PLAIN"


def test_a_delegation_token_by_jaas() -> None:
    jaas = f'{SCRAM} required username="id" password="{SECRET}" tokenauth="true";'
    given = password_of(security_protocol="SASL_SSL", sasl_mechanism="SCRAM-SHA-256", sasl_jaas_config=jaas)
    assert given == ("SCRAM-SHA-256", "id", SECRET, True)


def test_a_token_provider_is_a_function_or_a_name() -> None:
    for provider in (token, "tests.test_config_security:token"):
        given = config(security_protocol="SASL_SSL", sasl_mechanism="OAUTHBEARER", sasl_token_provider=provider)
        credentials = credentials_of(given)
        assert isinstance(credentials, Tokens)
        assert credentials.provider == provider


def test_a_token_provider_beside_the_module_that_java_names() -> None:
    jaas = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required;"
    given = config(security_protocol="SASL_SSL", sasl_jaas_config=jaas, sasl_token_provider=token)
    credentials = credentials_of(given)
    assert isinstance(credentials, Tokens)


def test_the_spelling_of_librdkafka() -> None:
    options = {name: value for name, value in LOGIN.items() if name != "sasl_mechanism"}
    assert password_of(**options, sasl_mechanisms="PLAIN")[0] == "PLAIN"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"sasl_username": "alice"}, r"sasl\.username is given, but security\.protocol=PLAINTEXT has no log-in"),
        ({"security_protocol": "SSL", "sasl_password": SECRET}, r"Set security\.protocol=SASL_SSL"),
        (
            {"ssl_truststore_location": "ca.pem"},
            r"ssl\.truststore\.location is given, but .*PLAINTEXT does not encrypt",
        ),
        (LOGIN | {"security_protocol": "SASL_PLAINTEXT", "ssl_truststore_location": "x"}, r"=SASL_SSL"),
        ({"security_protocol": "SASL_SSL"}, r"needs sasl\.mechanism"),
        ({"security_protocol": "SASL_SSL", "sasl_mechanism": "PLAIN"}, r"=PLAIN needs a username"),
        (LOGIN | {"sasl_password": ""}, r"=PLAIN needs a password"),
        (LOGIN | {"sasl_password": "a\0b"}, r"The password of the log-in contains a NUL"),
        (LOGIN | {"sasl_mechanism": "DIGEST-MD5"}, r"sasl\.mechanism must be one of"),
        (LOGIN | {"sasl_mechanism": "GSSAPI"}, r"=GSSAPI needs sasl\.kerberos\.service\.name"),
        (
            LOGIN | {"sasl_mechanism": "GSSAPI", "sasl_kerberos_service_name": "a"},
            r"sasl\.username has no use with .*=GS",
        ),
        (KERBEROS | {"sasl_jaas_config": f"{KRB5} serviceName=b;"}, "are not the same"),
        (KERBEROS | {"sasl_jaas_config": f"{KRB5} useKeyTab=true;"}, "useKeyTab=true and keyTab in .* go together"),
        (KERBEROS | {"sasl_jaas_config": f"{KRB5} keyTab=a;"}, "useKeyTab=true and keyTab in .* go together"),
        (KERBEROS | {"sasl_jaas_config": f"{KRB5} useKeyTab=true keyTab=a;"}, "needs the option principal"),
        (
            KERBEROS | {"sasl_jaas_config": f"{KRB5} useKeyTab=true keyTab=a principal=b ticketCache=c;"},
            "keyTab and ticketCache in .* are both given",
        ),
        (
            KERBEROS | {"sasl_jaas_config": f"{KRB5} renewTGT=true;"},
            r"the option 'renewTGT', which aioprod does not have",
        ),
        (KERBEROS | {"sasl_jaas_config": f"{KRB5} doNotPrompt=maybe;"}, r"the option 'doNotPrompt', .* or not so"),
        (KERBEROS | {"sasl_kerberos_kinit_cmd": "a"}, "tickets are obtained and renewed by the Kerberos library"),
        (LOGIN | {"sasl_mechanism": "AWS_MSK_IAM"}, r"sasl\.username has no use with sasl\.mechanism=AWS_MSK_IAM"),
        (
            IAM | {"sasl_jaas_config": f"{MSK}.IAMLoginModule required awsRole=a;"},
            r"the option 'awsRole'",
        ),
        (
            IAM | {"sasl_jaas_config": f"{MSK}.IAMLoginModule required awsStsRegion=a;"},
            r"'awsStsRegion' without awsRole",
        ),
        (IAM | {"sasl_jaas_config": f"{PLAIN} required;"}, r"PlainLoginModule, which is not for .*=AWS_MSK_IAM"),
        (IAM | {"sasl_login_callback_handler_class": MSK_HANDLER}, r"handler\.class has no use with .*AWS_MSK_IAM"),
        (LOGIN | {"sasl_client_callback_handler_class": MSK_HANDLER}, r"handler\.class has no use with .*=PLAIN"),
        (LOGIN | {"sasl_client_callback_handler_class": "com.Other"}, r"must be one of .*, not 'com\.Other'"),
        (LOGIN | {"sasl_kerberos_service_name": "kafka"}, r"service\.name has no use with sasl\.mechanism=PLAIN"),
        (LOGIN | {"sasl_oauthbearer_token_endpoint_url": "http://idp"}, r"endpoint\.url has no use with .*=PLAIN"),
        (LOGIN | {"sasl_oauthbearer_jwks_endpoint_url": "http://idp"}, r"how tokens are checked"),
        (LOGIN | {"sasl_token_provider": token}, r"sasl\.token\.provider has no use with sasl\.mechanism=PLAIN"),
        (LOGIN | {"sasl_login_refresh_window_factor": 0.9}, r"refresh\.window\.factor has no use with .*=PLAIN"),
        (IAM | {"sasl_login_refresh_buffer_seconds": 9}, r"refresh\.buffer\.seconds has no use with .*=AWS_MSK_IAM"),
        (
            {
                "security_protocol": "SASL_SSL",
                "sasl_jaas_config": f"{PLAIN} required username=a password=b tokenauth=true;",
            },
            r"the option 'tokenauth', which the PlainLoginModule does not have\. Hint: It has password, username\.",
        ),
        (
            {"security_protocol": "SASL_SSL", "sasl_mechanism": "SCRAM-SHA-256"}
            | {"sasl_jaas_config": f"{SCRAM} required username=a passwort=b;"},
            r"the option 'passwort', which the ScramLoginModule does not have",
        ),
        (
            {"security_protocol": "SASL_SSL", "sasl_mechanism": "OAUTHBEARER", "sasl_token_provider": token}
            | {"sasl_jaas_config": "x.OAuthBearerLoginModule required extension_a=b;"},
            r"the option 'extension_a', which has no use beside sasl_token_provider",
        ),
        (LOGIN | {"sasl_jaas_config": "x"}, r"sasl\.jaas\.config and sasl\.username are both given"),
        ({"security_protocol": "SASL_SSL", "sasl_mechanism": "OAUTHBEARER"}, r"needs sasl_token_provider"),
        (LOGIN | {"sasl_mechanism": "OAUTHBEARER", "sasl_token_provider": token}, r"has no use with .*OAUTHBEARER"),
        ({"security_protocol": "SASL_SSL", "sasl_jaas_config": f"{SCRAM} required;"}, r"needs sasl\.mechanism"),
        (
            {"security_protocol": "SASL_SSL", "sasl_mechanism": "PLAIN", "sasl_jaas_config": f"{SCRAM} required;"},
            r"has the ScramLoginModule, which is not for sasl\.mechanism=PLAIN",
        ),
        ({"security_protocol": "SASL_SSL", "sasl_jaas_config": f"{PLAIN} required username=a;"}, r"has no password"),
        (
            {"security_protocol": "SASL_SSL", "sasl_jaas_config": "com.Other required;"},
            r"'Other', which aioprod does not",
        ),
        (
            LOGIN | {"sasl_password": "env:AIOPROD_NO_SUCH"},
            r"sasl\.password names .*'AIOPROD_NO_SUCH', which is not set",
        ),
        (LOGIN | {"sasl_password": "file:/no/such"}, r"sasl\.password names the file '/no/such', which can't be read"),
        ({"security_protocol": "SSL", "ssl_context": ssl}, r"must be an ssl\.SSLContext"),
        (
            {"security_protocol": "SSL", "ssl_context": lambda: None, "ssl_key_password": "x"},
            r"ssl_context and ssl\.key\.password are both given",
        ),
        (
            {"security_protocol": "SSL", "ssl_truststore_location": "x", "ssl_truststore_certificates": "y"},
            r"ssl\.truststore\.location and ssl\.truststore\.certificates are both given",
        ),
        ({"security_protocol": "SSL", "ssl_keystore_location": "x", "ssl_keystore_key": SECRET}, r"both given"),
        ({"security_protocol": "SSL", "ssl_keystore_key": SECRET}, r"without ssl\.keystore\.certificate\.chain"),
        ({"security_protocol": "SSL", "ssl_keystore_certificate_chain": "x"}, r"given without ssl\.keystore\.key"),
        ({"security_protocol": "SSL", "ssl_key_password": SECRET}, r"without a private key"),
        ({"security_protocol": "SSL", "ssl_enabled_protocols": "TLSv1.1"}, r"must be a list of TLSv1\.2, TLSv1\.3"),
        ({"security_protocol": "SSL", "ssl_enabled_protocols": []}, r"must be a list of"),
        ({"security_protocol": "SSL", "ssl_enabled_protocols": 3}, r"must be a list of"),
        (
            {"security_protocol": "SSL", "ssl_protocol": "TLSv1.2", "ssl_enabled_protocols": "TLSv1.3"},
            r"allows none of the ssl\.enabled\.protocols",
        ),
        ({"security_protocol": "SSL", "ssl_truststore_type": "BKS"}, r"must be one of PEM, PKCS12, JKS"),
        (
            {"security_protocol": "SSL", "ssl_truststore_password": SECRET},
            r"ssl\.truststore\.password is given without ssl\.truststore\.location",
        ),
        (
            {"ssl_keystore_location": "x", "ssl_keystore_type": "pem", "ssl_keystore_password": SECRET}
            | {"security_protocol": "SSL"},
            r"ssl\.keystore\.password is given, but PEM has no password of the store\. Hint: That of an encrypted key",
        ),
        (
            {"ssl_truststore_certificates": "x", "ssl_truststore_password": SECRET, "security_protocol": "SSL"},
            r"ssl\.truststore\.password is given, but PEM",
        ),
        (
            {"ssl_truststore_certificates": "x", "ssl_truststore_type": "PKCS12", "security_protocol": "SSL"},
            r"ssl\.truststore\.certificates is PEM, but ssl\.truststore\.type=PKCS12",
        ),
        (
            {"ssl_keystore_key": SECRET, "ssl_keystore_certificate_chain": "x", "ssl_keystore_type": "JKS"}
            | {"security_protocol": "SSL"},
            r"ssl\.keystore\.key is PEM, but ssl\.keystore\.type=JKS",
        ),
        ({"security_protocol": "SSL", "sasl_login_refresh_window_factor": 0.4}, r"a number from 0\.5 to 1"),
        ({"security_protocol": "SSL", "sasl_login_refresh_window_factor": True}, r"a number"),
        ({"security_protocol": "SSL", "sasl_login_refresh_window_factor": None}, r"a number"),
    ],
)
def test_settings_that_contradict_or_lack_something(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message) as caught:
        config(**options)
    assert SECRET not in str(caught.value)


def test_no_repr_shows_a_secret() -> None:
    jaas = f'{PLAIN} required username="alice" password="{SECRET}";'
    shown = [
        config(**LOGIN),
        config(security_protocol="SASL_SSL", sasl_jaas_config=jaas),
        config(security_protocol="SSL", ssl_keystore_key=SECRET, ssl_keystore_certificate_chain="x"),
        config(security_protocol="SSL", ssl_keystore_location="x", ssl_key_password=SECRET),
        config(security_protocol="SSL", ssl_keystore_location="x", ssl_keystore_password=SECRET),
        config(security_protocol="SSL", ssl_truststore_location="x", ssl_truststore_password=SECRET),
        credentials_of(config(**LOGIN)),
        parse_jaas(jaas),
        OAuthToken(SECRET, 1.0),
    ]
    assert SECRET not in repr(shown)


# -- JAAS ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "options"),
    [
        (f"{PLAIN} required;", {}),
        (f'{PLAIN} required username="a b" password="=;\\"x\\\\";', {"username": "a b", "password": '=;"x\\'}),
        (f"{PLAIN} REQUIRED username='a\"b' password = bare ;", {"username": 'a"b', "password": "bare"}),
        (
            f'{PLAIN} required // a comment\n username="a" /* another = */ password="b\\n";',
            {"username": "a", "password": "b\n"},
        ),
        (f'{PLAIN} required username="=" password=";";', {"username": "=", "password": ";"}),
    ],
)
def test_a_log_in_module_with_options(text: str, options: dict[str, str]) -> None:
    entry = parse_jaas(text)
    assert (entry.module, entry.options) == ("PlainLoginModule", options)


@pytest.mark.parametrize(
    "text",
    [
        "",
        ";",
        SECRET,
        f"{PLAIN} required",
        f"{PLAIN} needed;",
        f'{PLAIN} required password="{SECRET};',
        f'{PLAIN} required password "{SECRET}";',
        f"{PLAIN} required password={SECRET} {SECRET};",
        f"{PLAIN} required password=;",
        f'{PLAIN} required "{SECRET}"="{SECRET}";',
        f'{PLAIN} required password="{SECRET}" password="{SECRET}";',
        f'{PLAIN} required password="{SECRET}"; {PLAIN} required;',
    ],
)
def test_a_malformed_jaas_configuration_is_not_repeated(text: str) -> None:
    with pytest.raises(ConfigError, match=r"^sasl\.jaas\.config ") as caught:
        parse_jaas(text)
    assert SECRET not in str(caught.value)


# -- secrets that are named ------------------------------------------------------------------------------------------


def test_secrets_are_looked_up_where_they_are(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AIOPROD_TEST_SECRET", SECRET)
    plain, properties = tmp_path / "secret", tmp_path / "secrets.properties"
    plain.write_text(f"{SECRET}\n")
    properties.write_text(f"the.key={SECRET}\n")
    for given in (
        SECRET,
        "env:AIOPROD_TEST_SECRET",
        f"file:{plain}",
        "${env:AIOPROD_TEST_SECRET}",
        f"${{file:{properties}:the.key}}",
    ):
        assert secret_of("sasl.password", given) == SECRET
    assert secret_of("sasl.password", "${env:AIOPROD_TEST_SECRET}-1") == f"{SECRET}-1"


@pytest.mark.parametrize("found", ["env:AIOPROD_NO_SUCH", 'a"b', "a'; b=${env:HOME}", "raw:a"])
def test_a_secret_that_is_looked_up_is_taken_as_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, found: str
) -> None:
    properties = tmp_path / "secrets.properties"
    properties.write_text(f"the.key={found}\n")
    monkeypatch.setenv("AIOPROD_TEST_SECRET", found)
    for value in (
        '"${env:AIOPROD_TEST_SECRET}"',
        "${env:AIOPROD_TEST_SECRET}",
        "env:AIOPROD_TEST_SECRET",
        f'"${{file:{properties}:the.key}}"',
    ):
        jaas = f"{PLAIN} required username=alice password={value};"
        assert password_of(security_protocol="SASL_SSL", sasl_jaas_config=jaas)[2] == found


def test_a_log_in_module_that_is_elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    jaas = f'{PLAIN} required username="alice" password="{SECRET}";'
    monkeypatch.setenv("AIOPROD_TEST_JAAS", jaas)
    (tmp_path / "jaas").write_text(f"{jaas}\n")
    (tmp_path / "all.properties").write_text(f"jaas={jaas}\n")
    for given in (
        "env:AIOPROD_TEST_JAAS",
        "${env:AIOPROD_TEST_JAAS}",
        f"file:{tmp_path / 'jaas'}",
        f"${{file:{tmp_path / 'all.properties'}:jaas}}",
    ):
        assert password_of(security_protocol="SASL_SSL", sasl_jaas_config=given)[2] == SECRET


def test_a_secret_that_is_not_utf_8_is_not_shown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "secret").write_bytes(SECRET.encode() + b"\xe9\n")
    monkeypatch.setenv("AIOPROD_TEST_SECRET", f"{SECRET}\udce9")
    for given in (
        f"file:{tmp_path / 'secret'}",
        "env:AIOPROD_TEST_SECRET",
        "${env:AIOPROD_TEST_SECRET}",
        f"{SECRET}\ud800",
        f"raw:{SECRET}\ud800",
    ):
        with pytest.raises(ConfigError, match=r"^sasl\.password names or is a secret that is not UTF-8\.$") as caught:
            config(**LOGIN | {"sasl_password": given})
        assert SECRET not in "".join(traceback.format_exception(caught.value))


@pytest.mark.parametrize(
    ("given", "secret"),
    [
        ("raw:env:X", "env:X"),
        ("raw:raw:x", "raw:x"),
        ("${other:X}", "${other:X}"),
        ("${env:X:Y}", "${env:X:Y}"),
        ("${file:x}", "${file:x}"),
        ("a:b", "a:b"),
        ("$x", "$x"),
    ],
)
def test_what_only_looks_like_a_reference(given: str, secret: str) -> None:
    assert secret_of("sasl.password", given) == secret


def test_references_to_what_is_not_there(tmp_path: Path) -> None:
    properties, large = tmp_path / "secrets.properties", tmp_path / "large"
    properties.write_text("a=b\n")
    large.write_bytes(b"x" * ((1 << 20) + 1))
    for given, message in (
        ("${env:AIOPROD_NO_SUCH}", "which is not set"),
        (f"${{file:{properties}:c}}", r"names the key 'c', which is not in the file"),
        ("file:a\0b", "can't be read"),
        (f"file:{tmp_path}", "can't be read"),
        (f"file:{large}", "larger than"),
    ):
        with pytest.raises(ConfigError, match=message):
            secret_of("sasl.password", given)

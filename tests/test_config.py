"""ProducerConfig: values in, normalised values out, and a sentence for everything that can't be used."""

from __future__ import annotations

import functools
import inspect
import pickle
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aioprod import Producer
from aioprod.admin import Admin
from aioprod.config import ClientConfig, Importance, ProducerConfig, Setting, Settings, settings_of
from aioprod.errors import ConfigError
from aioprod.reader import Reader

make = functools.partial(ProducerConfig.from_options, bootstrap_servers="localhost:9092")


def refusal(**options: Any) -> str:
    with pytest.raises(ConfigError) as caught:
        make(**options)
    return str(caught.value)


JAVA_DEFAULTS = {
    "acks": -1,
    "batch.size": 16384,
    "buffer.memory": 33554432,
    "client.dns.lookup": "use_all_dns_ips",
    "client.id": "",
    "compression.gzip.level": -1,
    "compression.lz4.level": 9,
    "compression.type": "none",
    "compression.zstd.level": 3,
    "connections.max.idle.ms": 540000,
    "delivery.timeout.ms": 120000,
    "enable.idempotence": True,
    "interceptor.classes": (),
    "key.serializer": None,
    "linger.ms": 5,
    "max.block.ms": 60000,
    "max.in.flight.requests.per.connection": 5,
    "max.request.size": 1048576,
    "metadata.max.age.ms": 300000,
    "metadata.max.idle.ms": 300000,
    "metadata.recovery.rebootstrap.trigger.ms": 300000,
    "metadata.recovery.strategy": "rebootstrap",
    "metrics.num.samples": 2,
    "metrics.recording.level": "INFO",
    "metrics.sample.window.ms": 30000,
    "partitioner.adaptive.partitioning.enable": True,
    "partitioner.availability.timeout.ms": 0,
    "partitioner.class": None,
    "partitioner.ignore.keys": False,
    "partitioner.rack.aware": False,
    "receive.buffer.bytes": -1,
    "reconnect.backoff.max.ms": 1000,
    "reconnect.backoff.ms": 50,
    "request.timeout.ms": 30000,
    "retries": 2147483647,
    "retry.backoff.max.ms": 1000,
    "retry.backoff.ms": 100,
    "security.protocol": "PLAINTEXT",
    "send.buffer.bytes": -1,
    "socket.connection.setup.timeout.max.ms": 30000,
    "socket.connection.setup.timeout.ms": 10000,
    "transaction.timeout.ms": 60000,
    "transaction.two.phase.commit.enable": False,
    "transactional.id": None,
    "value.serializer": None,
}


def test_defaults_are_those_of_java() -> None:
    effective = make().to_dict()
    assert {name: effective[name] for name in JAVA_DEFAULTS} == JAVA_DEFAULTS


def test_every_default_of_java_can_be_given() -> None:
    given = {"bootstrap.servers": "localhost:9092"} | JAVA_DEFAULTS
    assert ProducerConfig.from_dict(given).to_dict() == make().to_dict()


def test_defaults_of_our_own() -> None:
    config = make()
    assert config.adaptive_linger is True
    assert config.topic_recreation == "fail"
    assert config.enable_metrics_push is False
    assert config.explicit == {"bootstrap_servers"}


def test_every_default_is_valid_and_every_row_has_a_sentence() -> None:
    table = settings_of(ProducerConfig)
    for name, setting in table.items():
        if name != "bootstrap_servers":
            assert setting.accept(name, setting.default) == setting.default, name
        assert setting.doc.endswith("."), name
        assert isinstance(setting.importance, Importance)
        assert (setting.built is None) == (setting.later == ""), name
    assert len(table) > 50


def test_values_as_a_properties_file_has_them() -> None:
    config = make(linger_ms=" 7 ", enable_idempotence="FALSE", compression_type="ZSTD", acks="All", retries="+3")
    assert (config.linger_ms, config.enable_idempotence, config.acks, config.retries) == (7, False, -1, 3)
    assert config.compression_type == "zstd"


@pytest.mark.parametrize(("given", "stored"), [("all", -1), (-1, -1), ("-1", -1), (0, 0), ("1", 1), (1.0, 1)])
def test_acks(given: object, stored: int) -> None:
    assert make(acks=given).acks == stored


@pytest.mark.parametrize("value", [True, "5ms", 1.5, float("nan"), float("inf"), None, "", "1_000", [5], -1, "٣"])
def test_what_is_no_integer_of_the_range_is_refused(value: object) -> None:
    assert refusal(linger_ms=value) == f"linger.ms must be an integer of at least 0, not {value!r}."


def test_integers_may_come_from_other_types() -> None:
    class Five:
        def __index__(self) -> int:
            return 5

    assert make(linger_ms=Five()).linger_ms == 5
    assert type(make(linger_ms=5.0).linger_ms) is int


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"retries": 2**31}, "retries must be an integer from 0 to 2147483647, not 2147483648."),
        ({"compression_gzip_level": 0}, "compression.gzip.level must be an integer from 1 to 9, or -1, not 0."),
        ({"compression_lz4_level": 18}, "compression.lz4.level must be an integer from 1 to 17, not 18."),
        ({"compression_zstd_level": 23}, "compression.zstd.level must be an integer from -131072 to 22, not 23."),
        ({"enable_idempotence": 1}, "enable.idempotence must be true or false, not 1."),
        ({"enable_idempotence": "yes"}, "enable.idempotence must be true or false, not 'yes'."),
        (
            {"compression_type": "brotli"},
            "compression.type must be one of none, gzip, snappy, lz4, zstd, not 'brotli'.",
        ),
        (
            {"metadata_recovery_strategy": None},
            "metadata.recovery.strategy must be one of none, rebootstrap, not None.",
        ),
        ({"acks": 2}, "acks must be one of all, -1, 0, 1, not 2."),
        ({"acks": "most"}, "acks must be one of all, -1, 0, 1, not 'most'."),
        ({"client_id": 5}, "client.id must be a string, not 5."),
        ({"serializer_encoding": "no-such"}, "serializer.encoding must be the name of a character set, not 'no-such'."),
        ({"metadata_max_idle_ms": 4999}, "metadata.max.idle.ms must be an integer of at least 5000, not 4999."),
    ],
)
def test_a_refused_value_is_named_with_what_is_valid(options: dict[str, Any], sentence: str) -> None:
    assert refusal(**options) == sentence


@pytest.mark.parametrize(
    ("options", "part"),
    [
        ({"transaction_two_phase_commit_enable": True}, "two-phase commit is not built yet"),
        ({"enable_metrics_push": "true"}, "enable.metrics.push=True can't be used"),
        ({"metrics_num_samples": 3}, "metrics.num.samples=3 can't be used"),
        ({"metrics_recording_level": "DEBUG"}, "metrics.recording.level='DEBUG' can't be used"),
        ({"sasl.kerberos.kinit.cmd": "x"}, "sasl.kerberos.kinit.cmd can't be set: tickets are obtained and renewed by"),
        ({"ssl.engine.factory.class": "X"}, "ssl.engine.factory.class can't be set: it makes no sense outside the JVM"),
        ({"security.providers": "X"}, "security.providers can't be set: it makes no sense outside the JVM"),
        ({"config.providers.vault.class": "X"}, "in secrets are understood without it"),
    ],
)
def test_what_is_not_built_is_refused(options: dict[str, Any], part: str) -> None:
    assert part in refusal(**options)


def test_a_refused_setting_does_not_show_its_value_and_may_be_unset() -> None:
    assert "hunter2" not in refusal(**{"sasl.jaas.config": 'password="hunter2"'})
    assert make(**{"sasl.jaas.config": None}) == make()


def test_a_secret_is_never_shown() -> None:
    setting = Setting(
        default=None,
        convert=int,
        type_name="int",
        annotation="int",
        valid="a PIN",
        importance=Importance.LOW,
        doc="",
        secret=True,
    )
    assert setting.show("hunter2") == "[hidden]"
    with pytest.raises(ConfigError, match=r"^ssl\.pin must be a PIN, not \[hidden\]\.$"):
        setting.accept("ssl_pin", "hunter2")


def test_transactions_need_what_they_rest_on() -> None:
    assert make(transactional_id=" t ").transactional_id == "t"
    assert make(transactional_id="t", acks="all").enable_idempotence is True
    assert "transactional.id is empty" in refusal(transactional_id="")
    for options in ({"acks": 1}, {"enable_idempotence": False}, {"retries": 0}):
        text = refusal(transactional_id="t", **options)
        assert "transactional.id='t' contradicts " + next(iter(options)).replace("_", ".") in text


def test_idempotence_gives_way_unless_it_was_asked_for() -> None:
    assert make(acks=1).enable_idempotence is False
    assert make(retries=0).enable_idempotence is False
    assert make(acks="all", retries=1).enable_idempotence is True
    assert make(acks=0, enable_idempotence=False, max_in_flight_requests_per_connection=100).acks == 0
    assert "enable.idempotence=true contradicts acks=1." in refusal(acks=1, enable_idempotence=True)
    assert "enable.idempotence=true contradicts retries=0." in refusal(retries=0, enable_idempotence=True)


@pytest.mark.parametrize("options", [{}, {"enable_idempotence": True}, {"acks": 1}])
def test_in_flight_is_limited_by_idempotence_as_in_java(options: dict[str, Any]) -> None:
    sentence = refusal(max_in_flight_requests_per_connection=6, **options)
    assert "max.in.flight.requests.per.connection=6 is more than the 5" in sentence


def test_delivery_timeout_covers_linger_and_one_request() -> None:
    assert make(linger_ms=100_000).delivery_timeout_ms == 130_000
    assert make(linger_ms=2**40).delivery_timeout_ms == 2**31 - 1
    assert make(delivery_timeout_ms=30_005).delivery_timeout_ms == 30_005


@pytest.mark.parametrize(
    ("given", "linger_ms", "request_timeout_ms"),
    [
        ({"delivery_timeout_ms": 30_004}, 5, 29_999),
        ({"delivery_timeout_ms": 1000}, 5, 995),
        ({"delivery_timeout_ms": 1000, "linger_ms": 600}, 600, 400),
        ({"delivery_timeout_ms": 1000, "request_timeout_ms": 1000}, 0, 1000),
        ({"delivery_timeout_ms": 103}, 3, 100),
        ({"delivery_timeout_ms": 100}, 0, 100),
    ],
)
def test_a_low_delivery_timeout_lowers_the_defaults_that_have_to_fit(
    given: dict[str, int], linger_ms: int, request_timeout_ms: int
) -> None:
    config = make(**given)
    assert (config.linger_ms, config.request_timeout_ms) == (linger_ms, request_timeout_ms)
    assert config.delivery_timeout_ms == given["delivery_timeout_ms"]


@pytest.mark.parametrize(
    ("given", "sum_of"),
    [
        ({"delivery_timeout_ms": 1000, "linger_ms": 5, "request_timeout_ms": 1000}, "5 + 1000"),
        ({"delivery_timeout_ms": 1000, "request_timeout_ms": 1001}, "0 + 1001"),
        ({"delivery_timeout_ms": 1000, "linger_ms": 950}, "950 + 100"),
        ({"delivery_timeout_ms": 99}, "0 + 100"),
    ],
)
def test_given_timeouts_that_do_not_fit_contradict(given: dict[str, int], sum_of: str) -> None:
    sentence = f"is less than linger.ms + request.timeout.ms, which is at least {sum_of}."
    assert sentence in refusal(**given)


def test_no_compression_may_be_none() -> None:
    assert make(compression_type=None).compression_type == "none"


def test_backoff_limits() -> None:
    assert make(reconnect_backoff_ms=20).reconnect_backoff_max_ms == 20
    assert make(reconnect_backoff_ms=2000).reconnect_backoff_max_ms == 2000
    assert make(reconnect_backoff_ms=20, reconnect_backoff_max_ms=30).reconnect_backoff_max_ms == 30
    assert make(retry_backoff_ms=20).retry_backoff_max_ms == 1000
    assert make(retry_backoff_ms=2000).retry_backoff_max_ms == 2000
    assert make(retry_backoff_max_ms=20).retry_backoff_ms == 20
    assert make(socket_connection_setup_timeout_max_ms=500).socket_connection_setup_timeout_ms == 500
    sentence = refusal(retry_backoff_ms=20, retry_backoff_max_ms=10)
    assert "retry.backoff.ms=20 is larger than retry.backoff.max.ms=10" in sentence


def test_a_batch_fits_in_memory() -> None:
    assert make(buffer_memory=1000).batch_size == 1000
    assert make(max_request_size=500).batch_size == 500
    assert make(buffer_memory=1000, batch_size=1000).batch_size == 1000
    assert "batch.size=1001 is larger than buffer.memory=1000" in refusal(buffer_memory=1000, batch_size=1001)
    assert make(batch_size=2_000_000).batch_size == 2_000_000, "as in Java, a batch may be larger than max.request.size"


def test_how_far_batches_grow() -> None:
    assert make().batch_size_max == 1_048_576
    assert make(max_request_size=500_000).batch_size_max == 500_000
    assert make(max_request_size=5_000_000).batch_size_max == 1_048_576
    assert make(batch_size=2_000_000).batch_size_max == 2_000_000, "a batch that does not grow"
    assert make(batch_size_max=4000).batch_size == 4000
    assert make(batch_size=3000, batch_size_max=3000).batch_size == 3000
    smaller = refusal(batch_size=3001, batch_size_max=3000)
    assert "batch.size.max=3000 is smaller than batch.size=3001. Hint: Raise batch.size.max, or give" in smaller
    larger = refusal(batch_size_max=1_048_577)
    assert "batch.size.max=1048577 is larger than max.request.size=1048576, so such a batch would fit" in larger


def test_java_names_and_ours() -> None:
    config = ProducerConfig.from_dict({"bootstrap.servers": ["a:1"], "linger_ms": 1, "partitioner": "murmur2"})
    assert (config.bootstrap_servers, config.linger_ms, config.partitioner_class) == (("a:1",), 1, "murmur2")
    assert config.explicit == {"bootstrap_servers", "linger_ms", "partitioner_class"}


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("linger.sm", "Did you mean 'linger.ms'?"),
        ("max_in_flight_requests_per_conection", "Did you mean 'max_in_flight_requests_per_connection'?"),
        ("bootstrap.server", "Did you mean 'bootstrap.servers'?"),
        ("partitoner", "Did you mean 'partitioner'?"),
        ("xyzzy", "`python -m aioprod.config --of aioprod.config:ProducerConfig` lists all of them."),
    ],
)
def test_an_unknown_name_suggests_the_nearest(name: str, hint: str) -> None:
    assert refusal(**{name: 1}) == f"{name!r} is not a setting. Hint: {hint}"


@pytest.mark.parametrize(
    ("name", "near"), [("lingerms", "linger_ms"), ("clientid", "client_id"), ("retrys", "retries")]
)
def test_a_keyword_is_suggested_as_one(name: str, near: str) -> None:
    options: dict[str, Any] = {name: 1}
    with pytest.raises(ConfigError) as from_keyword:
        ProducerConfig.from_options(**{name: 1})
    with pytest.raises(ConfigError) as from_producer:
        Producer("a:1", **options)
    with pytest.raises(ConfigError) as from_replace:
        ProducerConfig.from_options(bootstrap_servers="a:1").replace(**{name: 1})
    with pytest.raises(ConfigError) as from_mapping:
        ProducerConfig.from_dict({name: 1})
    assert {caught.value.hint for caught in (from_keyword, from_producer, from_replace)} == {f"Did you mean {near!r}?"}
    assert from_mapping.value.hint == f"Did you mean {near.replace('_', '.')!r}?", "as in a file"


def test_all_names_that_can_not_be_used_are_in_one_error() -> None:
    """Whoever brings another client's dozen of settings doesn't correct them one run after the other."""
    with pytest.raises(ConfigError) as caught:
        ProducerConfig.from_dict({"linger.sm": 1, "acks": "all", "queue.buffering.max.ms": 5, "acks_": 1})
    assert str(caught.value).splitlines() == [
        "3 settings can't be used:",
        "  'linger.sm' is not a setting. Did you mean 'linger.ms'?",
        "  'queue.buffering.max.ms' is not a setting. Here it is 'linger.ms'.",
        "  'acks_' is not a setting. Did you mean 'acks'? Hint: Correct or leave out each of them.",
    ]


def test_the_same_setting_twice() -> None:
    with pytest.raises(ConfigError, match=r"^linger\.ms is given twice, as 'linger\.ms' and as 'linger_ms'\."):
        ProducerConfig.from_dict({"linger.ms": 1, "linger_ms": 1})
    assert "partitioner.class is given twice" in refusal(partitioner="murmur2", partitioner_class="murmur2")


def test_the_name_of_a_setting_is_a_string() -> None:
    wrong: Any = {5: 1}
    with pytest.raises(ConfigError, match="must be a string, not 5"):
        ProducerConfig.from_dict(wrong)


def test_servers_are_required() -> None:
    with pytest.raises(ConfigError, match=r"^bootstrap\.servers is not set\."):
        ProducerConfig()


def test_the_constructor_checks_too() -> None:
    assert ProducerConfig(bootstrap_servers=("a:1",), linger_ms=3).linger_ms == 3
    with pytest.raises(ConfigError, match=r"linger\.ms must be"):
        ProducerConfig(bootstrap_servers=("a:1",), linger_ms=-3)


def test_replace_computes_defaults_again() -> None:
    config = make(linger_ms=100_000)
    changed = config.replace(linger_ms=1, partitioner="crc32")
    assert (changed.delivery_timeout_ms, changed.partitioner_class) == (120_000, "crc32")
    assert changed.bootstrap_servers == config.bootstrap_servers
    assert config.linger_ms == 100_000
    with pytest.raises(ConfigError, match="is not a setting"):
        config.replace(lingre_ms=1)


def test_repr_shows_what_was_given() -> None:
    assert repr(make(linger_ms=7)) == "ProducerConfig(bootstrap_servers=('localhost:9092',), linger_ms=7)"


def test_help_shows_the_defaults() -> None:
    assert "linger_ms: 'int' = 5, " in str(inspect.signature(ProducerConfig))


def test_a_configuration_is_a_value() -> None:
    config = make(linger_ms=7, acks=1)
    assert config == make(linger_ms=7, acks=1)
    assert hash(config) == hash(make(linger_ms=7, acks=1))
    assert config != make(linger_ms=8, acks=1)
    assert pickle.loads(pickle.dumps(config)) == config
    with pytest.raises(AttributeError, match="never changes, so its linger_ms can't be set"):
        config.linger_ms = 8  # type: ignore[misc]
    with pytest.raises(AttributeError, match="never changes, so its linger_ms can't be deleted"):
        del config.linger_ms


def test_the_constructor_takes_settings_only() -> None:
    wrong: Any = {"lingre_ms": 1}
    with pytest.raises(TypeError, match="unexpected keyword argument 'lingre_ms'"):
        ProducerConfig(bootstrap_servers=("a:1",), **wrong)


@settings(max_examples=50)
@given(
    st.fixed_dictionaries(
        {},
        optional={
            "acks": st.sampled_from(["all", 0, 1, -1]),
            "retries": st.integers(0, 3),
            "linger_ms": st.integers(0, 10**6),
            "reconnect_backoff_ms": st.integers(0, 10**4),
            "retry_backoff_max_ms": st.integers(0, 10**4),
            "buffer_memory": st.integers(0, 10**5),
            "adaptive_linger": st.booleans(),
        },
    )
)
def test_what_is_in_effect_can_be_given_back(options: dict[str, Any]) -> None:
    config = make(**options)
    assert ProducerConfig.from_dict(config.to_dict()) == config
    assert config.replace() == config


def test_a_client_has_its_part_of_the_settings() -> None:
    config = ClientConfig.from_options(bootstrap_servers="a:1", reconnect_backoff_ms=20)
    assert config.reconnect_backoff_max_ms == 20
    assert isinstance(make(), ClientConfig)
    with pytest.raises(ConfigError, match="'linger_ms' is not a setting"):
        ClientConfig.from_options(bootstrap_servers="a:1", linger_ms=1)


def test_the_base_has_no_rules_of_its_own() -> None:
    with pytest.raises(NotImplementedError):
        Settings()


def test_lists_of_classes() -> None:
    config = make(interceptor_classes=" a.b.C , d:E,", metric_reporters=[object])
    assert config.interceptor_classes == ("a.b.C", "d:E")
    assert config.metric_reporters == (object,)
    assert make(interceptor_classes="").interceptor_classes == ()
    assert "interceptor.classes must be a list of interceptors" in refusal(interceptor_classes=5)
    assert "interceptor.classes must be a list of interceptors" in refusal(interceptor_classes=[None])


def test_names_of_classes_are_checked_without_importing_them() -> None:
    assert make(key_serializer=" str ", value_serializer="no.such.Module").value_serializer == "no.such.Module"
    assert "Did you mean 'round_robin'?" in refusal(partitioner="rund_robin")
    assert make(key_serializer=bytes.hex).key_serializer is bytes.hex


def test_properties_file(tmp_path: Path) -> None:
    path = tmp_path / "producer.properties"
    path.write_text("bootstrap.servers=a:1,\\\n    b:2\nlinger.ms: 20\nacks all\n", encoding="utf-8")
    config = ProducerConfig.from_properties(path)
    assert (config.bootstrap_servers, config.linger_ms, config.acks) == (("a:1", "b:2"), 20, -1)
    assert ProducerConfig.from_properties(str(path)) == config


def test_a_missing_properties_file(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"can't be read: No such file"):
        ProducerConfig.from_properties(tmp_path / "none.properties")


@pytest.mark.parametrize("client", [Producer, Reader, Admin])
def test_a_config_of_another_kind_is_named_without_its_values(client: Any) -> None:
    with pytest.raises(
        ConfigError, match=r"config is a SimpleNamespace: give a dict of settings, or a \w+Config\."
    ) as caught:
        client(config=SimpleNamespace(password="a secret"))
    assert "secret" not in str(caught.value)


def test_a_partitioner_that_is_aware_of_racks_needs_one() -> None:
    assert "partitioner.rack.aware=true needs client.rack, which is not set." in refusal(partitioner_rack_aware=True)
    assert make(partitioner_rack_aware="true", client_rack="a").partitioner_rack_aware
    assert not make(client_rack="a").partitioner_rack_aware

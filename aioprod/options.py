# Made by `make generate`. Edit the tables of settings.
"""The keyword options of each client, for type checkers and editors: `**options: Unpack[ProducerOptions]`.

Names, meanings and defaults are those of the settings (`python -m aioprod.config`). The types are those of the values
that are written in programs. Strings that look like a number, or that are spelled in other letters, are values of
properties files: give them as `config=`. No client loads this module at run time.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from ssl import SSLContext
from typing import Literal, TypedDict

from aioprod._option_types import (
    AssignorName,
    AssignorOption,
    DeserializerOption,
    InterceptorOption,
    InterceptorsOption,
    PartitionerOption,
    ReporterOption,
    SerializerOption,
    TokenProviderOption,
)

__all__ = [
    "AdminOptions",
    "AssignorName",
    "AssignorOption",
    "ClientOptions",
    "DeserializerOption",
    "InterceptorOption",
    "InterceptorsOption",
    "MemberOptions",
    "PartitionerOption",
    "ProducerOptions",
    "ReaderOptions",
    "RelayOptions",
    "ReporterOption",
    "SerializerOption",
    "TokenProviderOption",
    "TransactionSessionOptions",
]


class ClientOptions(TypedDict, total=False):
    """The options that all clients have."""

    sasl_oauthbearer_token_endpoint_url: str | None
    """Where tokens come from: the https URL of an endpoint, or the file: URL of a token, read when needed."""
    sasl_oauthbearer_client_credentials_client_id: str | None
    """The client's id at the token endpoint. `clientId` in sasl.jaas.config is the same."""
    sasl_oauthbearer_client_credentials_client_secret: str | None
    """Its secret. `clientSecret` in sasl.jaas.config is the same."""
    sasl_oauthbearer_scope: str | None
    """The scope of the token. `scope` in sasl.jaas.config is the same."""
    sasl_oauthbearer_header_urlencode: bool
    """Encode id and secret as RFC 6749 2.3.1 says, for endpoints that insist on it. By default False."""
    sasl_oauthbearer_jwt_retriever_class: str | None
    """Java's way to choose how tokens are got. JwtBearerJwtRetriever: by an assertion alone (RFC 7523 2.1)."""
    sasl_oauthbearer_assertion_file: str | None
    """A file with an assertion, a signed JWT that identifies the client, in place of a secret."""
    sasl_oauthbearer_assertion_private_key_file: str | None
    """A file with the private key (PEM) by which assertions are signed, if they are made here."""
    sasl_oauthbearer_assertion_private_key_passphrase: str | None
    """The password of that key, if it is encrypted."""
    sasl_oauthbearer_assertion_algorithm: Literal["RS256", "ES256"]
    """How assertions are signed. By default RS256."""
    sasl_oauthbearer_assertion_template_file: str | None
    """A JSON file with further fields of assertions: {"header": {...}, "payload": {...}}."""
    sasl_oauthbearer_assertion_claim_iss: str | None
    """The issuer of the assertion. Given: assertions are made, in place of a secret."""
    sasl_oauthbearer_assertion_claim_sub: str | None
    """The subject of the assertion, most often the client's id."""
    sasl_oauthbearer_assertion_claim_aud: str | None
    """The audience of the assertion, most often the token endpoint."""
    sasl_oauthbearer_assertion_claim_exp_seconds: int
    """How long an assertion holds. By default 300."""
    sasl_oauthbearer_assertion_claim_nbf_seconds: int
    """How long before it was made an assertion begins to hold. By default 60."""
    sasl_oauthbearer_assertion_claim_jti_include: bool
    """Give each assertion an id of its own. By default False."""
    sasl_login_callback_handler_class: str | None
    """Java's class that gets tokens: from the token endpoint, or by signing with AWS credentials (Amazon MSK)."""
    sasl_client_callback_handler_class: str | None
    """Java's files for Amazon MSK have to name it; it says nothing that the mechanism does not say."""
    sasl_login_connect_timeout_ms: int | None
    """How long a connection to the token endpoint may take. None: as long as the log-in may."""
    sasl_login_read_timeout_ms: int | None
    """How long the token endpoint may be silent. None: until `request.timeout.ms` are over."""
    sasl_login_retry_backoff_ms: int
    """The wait before a request to the token endpoint is retried. Doubled each time. By default 100."""
    sasl_login_retry_backoff_max_ms: int
    """How long requests to the token endpoint are retried in all. By default 10000."""
    security_protocol: Literal["PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"]
    """How to talk to the brokers: in the clear or encrypted (SSL), with or without a log-in (SASL). By default
    PLAINTEXT."""
    ssl_context: SSLContext | Callable[[], SSLContext] | None
    """TLS as Python describes it, in place of all `ssl.*` settings. A function is called for each connection."""
    ssl_truststore_location: str | None
    """The file with the CAs that brokers' certificates must come from. None: the system's."""
    ssl_truststore_certificates: str | None
    """The same CAs as PEM text, in place of a file."""
    ssl_truststore_type: Literal["PEM", "PKCS12", "JKS"] | None
    """The format of the trust store's file. None: what its first bytes say."""
    ssl_truststore_password: str | None
    """The password of a PKCS12 trust store; for a JKS one it may be left out."""
    ssl_keystore_location: str | None
    """The file with our own private key and certificate chain, in any order (mTLS)."""
    ssl_keystore_key: str | None
    """Our private key as PEM text, in place of a file."""
    ssl_keystore_certificate_chain: str | None
    """Our certificate chain as PEM text, our own certificate first; with the key as text."""
    ssl_keystore_type: Literal["PEM", "PKCS12", "JKS"] | None
    """The format of the key store's file. None: what its first bytes say."""
    ssl_keystore_password: str | None
    """The password of a PKCS12 key store; without it, `ssl.key.password`."""
    ssl_key_password: str | None
    """The password of our private key, if it is encrypted."""
    ssl_protocol: Literal["TLSv1.2", "TLSv1.3"]
    """The newest version of TLS that is offered. By default TLSv1.3."""
    ssl_enabled_protocols: str | Sequence[str]
    """The versions of TLS that are offered. By default TLSv1.2, TLSv1.3."""
    ssl_cipher_suites: str | Sequence[str]
    """The cipher suites for TLS 1.2, in OpenSSL's names. None: OpenSSL's choice."""
    ssl_endpoint_identification_algorithm: Literal["https", "none", ""]
    """https: a broker's certificate must be for the host that we connect to. none or empty: for any host. By default
    https."""
    sasl_mechanism: Literal["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER", "AWS_MSK_IAM", "GSSAPI"] | None
    """How to log in. Needed with SASL_PLAINTEXT and SASL_SSL."""
    sasl_mechanisms: Literal["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER", "AWS_MSK_IAM", "GSSAPI"] | None
    """The same by another name."""
    sasl_username: str | None
    """The user's name, for PLAIN and SCRAM."""
    sasl_password: str | None
    """The user's password. `env:NAME` and `file:PATH` name where it is."""
    sasl_jaas_config: str | None
    """Java's form of user name and password: a log-in module with its options."""
    sasl_token_provider: TokenProviderOption | None
    """For OAUTHBEARER: a function, or one that is a coroutine, that gives an `aioprod.OAuthToken`."""
    sasl_kerberos_service_name: str | None
    """For GSSAPI: the first part of the brokers' principal, most often kafka."""
    sasl_login_refresh_window_factor: float
    """The part of a token's lifetime after which the next one is fetched. By default 0.8."""
    sasl_login_refresh_window_jitter: float
    """The part of its lifetime that is added to that by chance, at most. By default 0.05."""
    sasl_login_refresh_min_period_seconds: int
    """A token is kept for at least so long, where its lifetime allows it. By default 60."""
    sasl_login_refresh_buffer_seconds: int
    """A token is replaced at least so long before its end, where it can be. By default 300."""
    client_id: str
    """The name of this client in the brokers' logs, quotas and metrics. Empty: one is made up."""
    client_rack: str
    """Where this client is, in the words of the brokers' `broker.rack`. Readers and members read from replicas there,
    and a producer with `partitioner.rack.aware` sends to leaders there."""
    client_dns_lookup: Literal["use_all_dns_ips", "resolve_canonical_bootstrap_servers_only"]
    """A connection tries each address of a host name in turn; or each bootstrap name is first replaced by the canonical
    names of its addresses. By default use_all_dns_ips."""
    request_timeout_ms: int
    """How long to wait for the answer to one request. Then its connection is closed and the request retried. By default
    30000."""
    socket_connection_setup_timeout_ms: int
    """How long one connection may take to be set up. Doubled with each failure in a row, with 20 % jitter. By default
    10000."""
    socket_connection_setup_timeout_max_ms: int
    """The most that the connection setup timeout grows to. By default 30000."""
    connections_max_idle_ms: int
    """A connection unused for this long is closed. -1: never. By default 540000."""
    reconnect_backoff_ms: int
    """How long to wait before connecting to a broker again. Doubled with each failure in a row, with 20 % jitter. Set
    alone, the wait never grows. By default 50."""
    reconnect_backoff_max_ms: int
    """The most that the wait before a new connection grows to. By default 1000."""
    retry_backoff_ms: int
    """How long to wait before a failed request is tried again. Doubled with each failure, with 20 % jitter. By default
    100."""
    retry_backoff_max_ms: int
    """The most that the wait before another try grows to. By default 1000."""
    send_buffer_bytes: int
    """The size of a socket's send buffer (SO_SNDBUF): what one connection sends in a round trip at most. -1: the
    operating system's, which grows with the traffic. By default -1."""
    receive_buffer_bytes: int
    """The size of a socket's receive buffer (SO_RCVBUF): what one connection receives in a round trip at most. -1: the
    operating system's, which grows with the traffic. By default -1."""
    metadata_max_age_ms: int
    """Metadata of the cluster is fetched again after this time, or up to 10 % earlier, so that clients that have
    started together spread out; even when nothing has failed. By default 300000."""
    metadata_recovery_strategy: Literal["none", "rebootstrap"]
    """What to do when no known broker can be reached: start again from `bootstrap.servers`, or keep trying. By default
    rebootstrap."""
    metadata_recovery_rebootstrap_trigger_ms: int
    """How long requests for metadata may fail before the client starts again from `bootstrap.servers`. By default
    300000."""
    metadata_cluster_check_enable: bool
    """Whether connections name the broker and the cluster that they are for, so that brokers from 4.4 on reject one
    that has reached another broker (KIP-1242). Without effect if `metadata.recovery.strategy` is `none`. By default
    True."""
    metric_reporters: str | Sequence[ReporterOption]
    """Objects whose `report(snapshot)` gets all metrics once in each `metrics.sample.window.ms`."""
    metrics_sample_window_ms: int
    """The time between two calls of the metric reporters. By default 30000."""
    metrics_topics_max: int
    """How many topics have metrics of their own; the others share the label `(other)`. Not a setting of Java's. By
    default 100."""
    metrics_num_samples: int
    """Known for files of Java's clients that spell out the default. By default 2."""
    metrics_recording_level: Literal["INFO", "DEBUG", "TRACE"]
    """Known for files of Java's clients that spell out the default. By default INFO."""
    enable_metrics_push: bool
    """Send metrics to brokers that subscribe to them (KIP-714). Java's default is true: the setting is known for files
    that turn it off. By default False."""


class RelayOptions(ClientOptions, total=False):
    """The options of a `Relay`."""

    serializer_encoding: str | None
    """The character set of the string and UUID serializers. None: UTF-8."""
    key_serializer_encoding: str | None
    """The same for keys alone. None: as `serializer.encoding`."""
    value_serializer_encoding: str | None
    """The same for values alone. None: as `serializer.encoding`."""
    acks: Literal["all", "-1", "0", "1", -1, 0, 1]
    """The replicas that must have a record before it counts as delivered: all in-sync ones (all or -1), the leader (1),
    or none (0: nothing is known of the outcome, and offsets are -1). By default -1."""
    enable_idempotence: bool
    """Records of a partition keep their order and are not stored twice by a retry. By default True."""
    retries: int
    """How often a batch is retried. Leave it, and bound the time by `delivery.timeout.ms`. By default 2147483647."""
    delivery_timeout_ms: int
    """The whole life of a record from its acceptance to its outcome, waits and retries included. At least `linger.ms` +
    `request.timeout.ms`. By default 120000."""
    resolve_unknown_outcomes: bool
    """Whether a record whose answer was lost gets its outcome only when it is known whether it is stored, up to
    `resolve.timeout.ms` after its deadline. `flush()` and `close()` wait for that, too. Not with a `transactional.id`.
    By default False."""
    resolve_timeout_ms: int
    """How long `Producer.resolve`, where its call does not say, and `resolve.unknown.outcomes` try to find out whether
    a record is stored. By default 60000."""
    resolve_max_bytes: int
    """How many bytes of a partition `Producer.resolve` reads to find a record. By default 268435456."""
    max_block_ms: int
    """How long `start()`, `send()` (for memory and metadata) and `partitions_for()` may wait. By default 60000."""
    close_timeout_ms: int | None
    """How long `close()` without a time, and the end of `async with`, may wait for outcomes before it fails the rest.
    None: as long as `delivery.timeout.ms` allows. Not a setting of Java's."""
    max_in_flight_requests_per_connection: int
    """How many requests may wait for their answers on one connection. At most 5 with idempotence. By default 5."""
    linger_ms: int
    """How long a record may wait for others to share its batch. With `adaptive.linger` this is an upper bound. By
    default 5."""
    adaptive_linger: bool
    """Records wait for others only while a request to their broker is outstanding; an idle connection sends at once.
    False: Java's fixed wait. Not a setting of Java's. By default True."""
    batch_size: int
    """The bytes of a batch after which it is full, and leaves. 0: each record is its own batch. By default 16384."""
    batch_size_max: int
    """The bytes up to which a full batch grows until a request takes it: its partition or broker has all its requests
    in flight, is away, or backs off. At most `max.request.size`. The same as `batch.size`: none grows. Not a setting of
    Java's. By default 1048576."""
    buffer_memory: int
    """The bytes of all records that wait for their outcome. When it is used up, sending waits or fails. By default
    33554432."""
    buffer_memory_stuck_fraction: float
    """The part of `buffer.memory` for records that can't be delivered now, as their partition has no leader or backs
    off, or its broker does not answer, while others are delivered. 1.0: all of it. Not a setting of Java's. By default
    0.5."""
    max_request_size: int
    """The largest request in bytes, and the largest single record before compression. Unless it is given, a request has
    up to 16 MiB of several partitions where the round trip would hold up what it leaves behind. By default 1048576."""
    compression_type: Literal["none", "gzip", "snappy", "lz4", "zstd"] | None
    """How batches are compressed. A batch that compression would enlarge goes uncompressed. By default none."""
    compression_gzip_level: int
    """More is smaller and slower. -1: zlib's default. By default -1."""
    compression_lz4_level: int
    """More is smaller and slower. By default 9."""
    compression_zstd_level: int
    """More is smaller and slower. 0: zstd's default. By default 3."""
    partitioner_class: PartitionerOption | None
    """Chooses the partition of a record that names none. None: by murmur2 of the key; without a key, one partition
    until a batch is full, preferring those with short queues."""
    partitioner_adaptive_partitioning_enable: bool
    """The built-in partitioner prefers partitions with short queues. By default True."""
    partitioner_availability_timeout_ms: int
    """The built-in partitioner avoids brokers that have taken nothing for this long. 0: never. By default 0."""
    partitioner_ignore_keys: bool
    """The built-in partitioner treats records with a key as those without. By default False."""
    partitioner_rack_aware: bool
    """The built-in partitioner sends records without a key to partitions whose leader is in `client.rack`, while there
    are any (KIP-1123). A partitioner that is set chooses for itself. By default False."""
    interceptor_classes: str | Sequence[InterceptorOption]
    """Objects that see each record before it is serialized, and its outcome, in this order."""
    metadata_max_idle_ms: int
    """The metadata of a topic to which nothing was sent for this long is dropped, and fetched again on use. By default
    300000."""
    topic_recreation: Literal["fail", "follow"]
    """What happens to batches whose topic was deleted and created again: they fail, or follow to the new topic of that
    name, for which they wait as long as `delivery.timeout.ms` allows. In a transaction they always fail. Not a setting
    of Java's. By default fail."""
    transaction_timeout_ms: int
    """The time after which the broker aborts an open transaction. Without `transactional.id` it has no effect. By
    default 60000."""
    transaction_two_phase_commit_enable: bool
    """An outside coordinator decides whether a transaction is committed (KIP-939). Known for files of Java's producers
    that spell out the default. By default False."""


class ProducerOptions(RelayOptions, total=False):
    """The options of a `Producer`."""

    transactional_id: str | None
    """The name of a producer with transactions: a new one with the same name fences off the old one and ends what it
    left open. It needs `acks=all` and `enable.idempotence`. None: no transactions."""


class AdminOptions(ClientOptions, total=False):
    """The options of an `Admin`."""

    default_api_timeout_ms: int
    """How long to retry while brokers can't be reached or answer with retriable errors. A reader counts the time in
    which none of its partitions makes progress. By default 60000."""


class ReaderOptions(AdminOptions, total=False):
    """The options of a `Reader`, and of `read`."""

    isolation: Literal["read_uncommitted", "read_committed"]
    """The same by another name."""
    fetch_max_bytes: int
    """The most bytes in one response of a broker; a first batch that is larger is returned all the same. By default
    52428800."""
    max_partition_fetch_bytes: int
    """The most bytes of one partition in a response; a first batch that is larger is returned all the same. By default
    1048576."""
    fetch_min_bytes: int
    """How many bytes of records a broker waits for before it answers, for `fetch.max.wait.ms` at most. More means fewer
    requests, and records that come later. By default 1."""
    fetch_max_wait_ms: int
    """How long a broker may wait for `fetch.min.bytes` before it answers with less. By default 500."""
    check_crcs: bool
    """Whether the checksum of each batch is compared with its bytes. By default True."""


class MemberOptions(ReaderOptions, total=False):
    """The options of a `Member`."""

    partition_assignment_strategy: AssignorName | Sequence[AssignorOption]
    """The assignors, names or objects, in order of preference; the group takes one that all members have. By default
    cooperative-sticky, range."""
    session_timeout_ms: int
    """How long the coordinator waits for a heartbeat before it removes the member from the group. By default 45000."""
    heartbeat_interval_ms: int
    """The time between two heartbeats; their responses also announce rebalances. No more than a third of
    `session.timeout.ms`, as a rule. By default 3000."""
    max_poll_interval_ms: int
    """The longest time between two polls: a member that takes longer for a record leaves the group. In a rebalance the
    coordinator waits as long for members to rejoin. By default 300000."""
    group_instance_id: str | None
    """Makes this a static member (KIP-345): one that restarts under the same id within `session.timeout.ms` gets its
    partitions back without a rebalance."""
    enable_auto_commit: bool
    """Whether the member commits in the background what the application has finished: the records that it has polled
    past. Java's consumer does so by default. By default False."""
    auto_commit_interval_ms: int
    """The time between two commits in the background; one more is made before partitions are revoked. By default
    5000."""
    close_timeout_ms: int
    """The time that `close()` and the end of `async with` take at most. Half of it is for a record that another task
    works on. By default 30000."""
    group_protocol: Literal["classic", "consumer"]
    """`classic`: a member assigns the partitions, with an assignor of `partition.assignment.strategy`; `consumer`: the
    brokers do (KIP-848, from 4.0 on). By default classic."""
    exclude_internal_topics: bool
    """Whether a pattern leaves out Kafka's own topics, such as `__consumer_offsets`, although it matches them. By
    default True."""
    group_remote_assignor: str | None
    """The brokers' assignor for `group.protocol=consumer`: `uniform` or `range`. None: the brokers choose."""


class TransactionSessionOptions(AdminOptions, total=False):
    """The options of a `TransactionSession`."""

    transactional_id: str | None
    """The name of the session: a new one with the same name fences off the old one and ends what it left open."""
    transaction_timeout_ms: int
    """The time after which the brokers abort a transaction, from its first record on. By default 60000."""

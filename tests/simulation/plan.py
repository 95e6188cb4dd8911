"""`Plan`: the cluster, producer settings, work and faults of one seed."""

from __future__ import annotations

from dataclasses import dataclass, field
from random import Random
from typing import Any

from aioprod.testing import Security

__all__ = ["FAULTS", "LOG_IN_FAULTS", "STYLES", "Plan"]

STYLES = ("send", "submit", "callback", "forget", "many")
FAULTS = (
    "drop",
    "error",
    "duplicate",
    "delay",
    "silence",
    "garbage",
    "cut answer",
    "throttle",
    "reset",
    "stall",
    "leader",
    "leaderless",
    "cut",
    "kill",
    "black hole",
    "metadata",
    "freeze",
    "recreate",
    "upgrade",
)
LOG_IN_FAULTS = ("password", "log-in")
TRANSACTION_FAULTS = ("coordinator", "move coordinator", "finalize")


@dataclass
class Plan:
    """Everything that is drawn before the run; the events during the run are drawn as they happen."""

    seed: int
    brokers: int
    topics: dict[str, int]
    created_late: bool
    options: dict[str, Any]
    transaction_version: int
    records: int
    senders: int
    pause_max_s: float
    size_max: int
    styles: tuple[str, ...]
    cancels: float
    flushes: float
    faults: tuple[str, ...]
    fault_every_s: float
    faults_max: int
    message_max_bytes: int | None
    near_the_end: bool
    calm: str
    ending: str
    close_timeout_s: float
    watched: bool
    has_on_error: bool
    clock_pauses: float
    inline_size: int
    network: dict[str, Any] = field(default_factory=dict)
    mechanism: str = ""
    session_ms: int = 0

    @classmethod
    def draw(cls, seed: int) -> Plan:
        """Draw a plan from a seed; features are left out at random, so that each seed is another mixture."""
        random = Random(seed)  # not for secrets
        pick = random.choice
        topics = {f"topic-{number}": random.randint(1, 4) for number in range(random.randint(1, 2))}
        plan = cls(
            seed=seed,
            brokers=random.randint(1, 3),
            topics=topics,
            created_late=random.random() < 0.15,
            options=_options(random),
            transaction_version=pick([0, 0, 0, 1, 2]),
            records=pick([10, 30, 60, 100]),
            senders=random.randint(1, 4),
            pause_max_s=pick([0.0, 0.002, 0.02, 0.2, 1.0]),
            size_max=pick([0, 50, 50, 400, 3000]),
            styles=_some(random, STYLES, 1),
            cancels=pick([0.0, 0.0, 0.1, 0.4]),
            flushes=pick([0.0, 0.02, 0.1]),
            faults=_some(random, FAULTS, 0),
            fault_every_s=pick([0.005, 0.02, 0.1, 0.5]),
            faults_max=pick([3, 10, 30]),
            message_max_bytes=pick([None, None, None, 300, 2000]),
            near_the_end=random.random() < 0.2,
            calm=pick(["", "expire", "truncate"]),
            ending=pick(["flush", "flush", "flush", "close", "close at once", "cancelled close"]),
            close_timeout_s=pick([0.0, 0.01, 0.3, 2.0]),
            watched=random.random() < 0.3,
            has_on_error=random.random() < 0.6,
            clock_pauses=pick([0.0, 0.0, 0.0, 0.001, 0.02, 0.1]),
            inline_size=pick([0, 200, 1_000_000]),
            network={
                "latency_min_s": 0.0,
                "latency_max_s": pick([0.0001, 0.001, 0.02, 0.25]),
                "segment_max": pick([7, 100, 1500, 65_536, 65_536, 65_536]),
                "window": pick([500, 5000, 262_144]),
            },
        )
        if plan.transaction_version:
            plan._make_transactional()
        plan._make_possible()
        plan._make_secured()
        plan._make_resolving()
        return plan

    def _make_transactional(self) -> None:
        """Send everything in transactions, without features that don't go with them, such as recreated topics."""
        random = Random(self.seed + 1)
        self.options |= {
            "enable_idempotence": True,
            "acks": "all",
            "retries": 2**31 - 1,
            "buffer_memory": 32_000_000,
            "transactional_id": "simulated",
            "transaction_timeout_ms": random.choice([2_000, 60_000, 900_000]),
        }
        self.created_late = self.near_the_end = False
        self.flushes = 0.0
        self.calm = ""
        self.faults = tuple(
            sorted({*self.faults, *random.sample(TRANSACTION_FAULTS, random.randint(0, 3))} - {"recreate"})
        )

    def _make_possible(self) -> None:
        """Adjust settings with which no response could ever arrive in time, or the run would take too long."""
        network, options = self.network, self.options
        # A request on a half-open connection takes its whole timeout; there has to be time for a second one.
        options["delivery_timeout_ms"] = max(options["delivery_timeout_ms"], options["request_timeout_ms"] + 300)
        if network["latency_max_s"] > 0.001:
            network["window"] = 262_144
        if network["latency_max_s"] > 0.02:
            for name in ("request_timeout_ms", "socket_connection_setup_timeout_ms"):
                options[name] = max(options[name], 2000)
            options["max_block_ms"] = max(options["max_block_ms"], 20_000)
            options["delivery_timeout_ms"] = max(options["delivery_timeout_ms"], 5000)
        if network["segment_max"] < 100:
            self.size_max = min(self.size_max, 50)
            self.records = min(self.records, 30)
            # Reading each segment takes the busy machine its time.
            self.clock_pauses = min(self.clock_pauses, 0.02)

    def _make_secured(self) -> None:
        """Let some seeds log in, with short sessions that are long enough for their renewal to be answered."""
        random = Random(self.seed + 2)
        if random.random() > 0.3:
            return
        shortest = [0, 300, 1000] if self.network["latency_max_s"] < 0.02 else [0]
        self.mechanism = random.choice(["PLAIN", "SCRAM-SHA-256"])
        self.session_ms = random.choice([*shortest, 5000])
        security = self.security()
        assert security is not None
        self.options |= security.client_options()
        self.faults = tuple(sorted({*self.faults, *random.sample(LOG_IN_FAULTS, random.randint(0, 2))}))

    def _make_resolving(self) -> None:
        """Let some seeds find out about unknown outcomes before their senders get them."""
        random = Random(self.seed + 3)
        if self.idempotent and not self.transaction_version and random.random() < 0.3:
            self.options |= {
                "resolve_unknown_outcomes": True,
                "resolve_timeout_ms": random.choice([100, 2_000, 60_000]),
            }

    def security(self, password: str = "secret") -> Security | None:
        """The brokers' security, None for plaintext without log-in."""
        if not self.mechanism:
            return None
        return Security(
            protocol="SASL_PLAINTEXT",
            mechanisms=[self.mechanism],
            users={"alice": password},
            session_ms=self.session_ms,
        )

    @property
    def idempotent(self) -> bool:
        """Whether records are stored once at most."""
        return bool(self.options["enable_idempotence"])

    @property
    def may_be_fenced(self) -> bool:
        """Whether a transaction may time out: the coordinator then aborts it and fences the producer."""
        return int(self.options["transaction_timeout_ms"]) < 900_000

    @property
    def ordered(self) -> bool:
        """Whether the order within a partition is guaranteed; with acks=0 the producer can't know what is in flight."""
        one_by_one = self.options["max_in_flight_requests_per_connection"] == 1 and self.options["acks"] != "0"
        return self.idempotent or one_by_one

    @property
    def has_memory(self) -> bool:
        """Whether there is so much memory that no record waits for it."""
        return int(self.options["buffer_memory"]) > 1_000_000

    @property
    def resolves(self) -> bool:
        """Whether senders get the outcome of a record only when it is known, or can't be in time."""
        return bool(self.options.get("resolve_unknown_outcomes"))

    @property
    def delivery_timeout_s(self) -> float:
        """The time in seconds within which a record has its outcome."""
        resolving_ms = int(self.options["resolve_timeout_ms"]) if self.resolves else 0
        return (int(self.options["delivery_timeout_ms"]) + resolving_ms) / 1000


def _some(random: Random, of: tuple[str, ...], at_least: int) -> tuple[str, ...]:
    """A random selection of the features."""
    return tuple(sorted(random.sample(of, random.randint(at_least, len(of)))))


def _options(random: Random) -> dict[str, Any]:
    pick = random.choice
    idempotent = random.random() < 0.7
    linger_ms = pick([0, 0, 5, 50])
    request_timeout_ms = pick([200, 500, 2000, 5000])
    shortest = linger_ms + request_timeout_ms
    buffer_memory = pick([32_000_000, 32_000_000, 32_000_000, 20_000, 6_000])
    options: dict[str, Any] = {
        "client_id": "simulated",
        "enable_idempotence": idempotent,
        "acks": "all" if idempotent else pick(["all", "1", "1", "0"]),
        "retries": 2**31 - 1 if random.random() < 0.8 else random.randint(1, 4),
        "max_in_flight_requests_per_connection": random.randint(1, 5),
        "linger_ms": linger_ms,
        "adaptive_linger": random.random() < 0.5,
        "batch_size": min(pick([0, 150, 400, 2000, 16_384]), buffer_memory),
        "batch_size_max": pick([0, 1000, 5000, 1_048_576]),
        "buffer_memory": buffer_memory,
        "compression_type": pick(["none", "none", "lz4", "zstd", "gzip", "snappy"]),
        "request_timeout_ms": request_timeout_ms,
        "delivery_timeout_ms": pick([shortest, 2 * shortest, 5 * shortest, 30_000, 120_000]),
        "max_block_ms": pick([1000, 20_000, 60_000]),
        "retry_backoff_ms": pick([1, 20, 100]),
        "retry_backoff_max_ms": pick([100, 1000]),
        "reconnect_backoff_ms": pick([1, 50]),
        "reconnect_backoff_max_ms": pick([50, 1000]),
        "socket_connection_setup_timeout_ms": pick([300, 2000]),
        "socket_connection_setup_timeout_max_ms": 3000,
        "metadata_max_age_ms": pick([500, 300_000]),
        "connections_max_idle_ms": pick([300, 540_000, 540_000]),
    }
    if random.random() < 0.2:
        options["max_request_size"] = min(pick([5_000, 20_000]), buffer_memory)
        options["batch_size"] = min(options["batch_size"], options["max_request_size"])
        options["batch_size_max"] = min(options["batch_size_max"], options["max_request_size"])
    options["batch_size_max"] = max(options["batch_size"], options["batch_size_max"])
    return options

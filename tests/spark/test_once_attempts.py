"""The driver's side of exactly-once delivery, with every outcome that a step can have. A job is a plain function."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, ClassVar

import pytest

from aioprod import TransactionHandle
from aioprod.errors import (
    AuthorizationError,
    ConfigError,
    ErrorCode,
    ProducerFencedError,
    RequestTimedOutError,
    TransactionAbortedError,
    UsageError,
)
from aioprod.messages import EndTxnRequest, OffsetFetchRequest, TxnOffsetCommitRequest
from aioprod.spark import worker
from aioprod.spark.transactions import steps as steps_module
from aioprod.spark.transactions.attempts import Attempts
from aioprod.spark.transactions.marker import Policy
from aioprod.spark.transactions.settings import OnceSettings
from aioprod.spark.transactions.steps import Steps
from aioprod.spark.transactions.task import participating
from aioprod.testing.fixtures import FakeClusterThread, running_fake_cluster
from aioprod.types import TopicPartition

FAST = {"retry.backoff.ms": "1", "retry.backoff.max.ms": "5", "reconnect.backoff.ms": "1"}
GROUP = "aioprod-eos.load"
PLACE = TopicPartition("t", 0)


@pytest.fixture(params=[1, 2], ids=["transaction-version-1", "transaction-version-2"])
def cluster(request: pytest.FixtureRequest) -> Iterator[FakeClusterThread]:
    with running_fake_cluster(3, transaction_version=request.param) as running:
        running.create_topic("t", 2)
        yield running
        for driver in Driver.alive:
            driver.close()
        Driver.alive.clear()


class Driver:
    """A driver of one life on a cluster, and what its jobs write."""

    alive: ClassVar[list[Driver]] = []

    def __init__(self, cluster: FakeClusterThread, owner: str = "me", **options: Any) -> None:
        kafka = {"bootstrap.servers": cluster.bootstrap, **FAST, **options.pop("kafka", {})}
        limit = options.pop("attempts", 4)
        self.settings = OnceSettings.of(kafka, transactional_id="load", topic="t", **options)
        settings = self.settings
        self.steps = Steps(settings.session(), marker=settings.marker, owner=owner, policy=settings.policy)
        worker.run(self.steps.start())
        self.alive.append(self)
        self.attempts = Attempts(self.steps, limit)
        self.tally = self.attempts.tally
        self.jobs: list[TransactionHandle] = []

    def send(self, handle: TransactionHandle, value: str) -> str:
        """What tasks do."""
        self.jobs.append(handle)
        with participating(handle, self.settings.kafka) as producer:
            worker.run(producer.send("t", value.encode(), partition=1))
        return value

    def run(self, step: int, *before: Callable[[], object], job: Callable[[str], object] | None = None) -> str | None:
        """Run a step; the n-th attempt ends with what the n-th of `before` does or raises."""
        todo = list(before)

        def work(handle: TransactionHandle) -> str:
            value = self.send(handle, f"{step}:{len(self.jobs)}")
            if todo:
                todo.pop(0)()
            return value

        return self.attempts.run(step, work)

    def close(self) -> None:
        worker.run(self.steps.close())


def visible(cluster: FakeClusterThread) -> list[str]:
    return [record.value.decode() for record in cluster.records("t")]


def raises(error: BaseException) -> Callable[[], None]:
    def call() -> None:
        raise error

    return call


def take_over(rival: Driver) -> None:
    """What somebody else with the same id does first."""
    worker.run(rival.steps.begin(0))


def time_out(cluster: FakeClusterThread, driver: Driver) -> Callable[[], None]:
    """What brokers do after transaction.timeout.ms."""

    def call() -> None:
        transactions = cluster.state.transactions
        cluster.call(transactions._fence, transactions["load"])
        driver.steps.timeout_ms = 0

    return call


# -- the way it goes -------------------------------------------------------------------------------------------------


def test_steps_are_committed_one_after_the_other(cluster: FakeClusterThread) -> None:
    driver = Driver(cluster)
    assert [driver.run(step) for step in range(3)] == ["0:0", "1:1", "2:2"]
    assert visible(cluster) == ["0:0", "1:1", "2:2"]
    assert cluster.committed_offset(GROUP, PLACE) == 3
    assert (driver.tally.committed, driver.tally.skipped, driver.tally.rerun) == (3, 0, 0)
    assert driver.steps.took_ms.keys() == {"init", "fetch", "offsets", "end"}
    assert len({(handle.producer_id, handle.epoch) for handle in driver.jobs}) == 3


def test_what_was_committed_is_skipped_by_the_next_life(cluster: FakeClusterThread) -> None:
    Driver(cluster).run(0)
    driver = Driver(cluster)
    assert driver.run(0) is None
    assert not driver.jobs
    assert driver.run(1) == "1:0"
    assert visible(cluster) == ["0:0", "1:0"]
    assert (driver.tally.committed, driver.tally.skipped) == (1, 1)


def test_a_step_without_rows_has_a_marker_too(cluster: FakeClusterThread) -> None:
    driver = Driver(cluster)
    assert driver.attempts.run(0, lambda handle: ()) == ()
    assert cluster.committed_offset(GROUP, PLACE) == 1


def test_what_a_dead_driver_left_is_aborted(cluster: FakeClusterThread) -> None:
    dead = Driver(cluster)
    begun = worker.run(dead.steps.begin(0))
    dead.send(begun.handle, "left")
    assert Driver(cluster).run(0) == "0:0"
    assert visible(cluster) == ["0:0"]


# -- jobs that fail --------------------------------------------------------------------------------------------------


def test_a_job_that_fails_is_run_again_as_a_whole(cluster: FakeClusterThread) -> None:
    driver = Driver(cluster)
    assert driver.run(0, raises(RuntimeError("lost executor")), raises(RuntimeError("again"))) == "0:2"
    assert visible(cluster) == ["0:2"]
    assert driver.tally.rerun == 2
    assert driver.tally.reasons == ["step 0: lost executor", "step 0: again"]


def test_no_more_attempts_than_allowed(cluster: FakeClusterThread) -> None:
    driver = Driver(cluster, attempts=2)
    with pytest.raises(TransactionAbortedError, match="tried 2 times and not committed; the last time: no luck"):
        driver.run(0, raises(RuntimeError("no luck")), raises(RuntimeError("no luck")))
    assert visible(cluster) == []
    assert driver.run(0) == "0:2"


@pytest.mark.parametrize(
    "failure", [RuntimeError("[SPARK_JOB_CANCELLED] Job 7 cancelled"), KeyboardInterrupt(), ConfigError("Wrong.")]
)
def test_a_job_that_was_stopped_or_can_not_work_is_not_run_again(
    cluster: FakeClusterThread, failure: BaseException
) -> None:
    driver = Driver(cluster)
    with pytest.raises(type(failure)):
        driver.run(0, raises(failure))
    assert len(driver.jobs) == 1
    assert Driver(cluster).run(0) == "0:0"
    assert visible(cluster) == ["0:0"]


def test_a_stopped_job_does_not_hide_behind_a_rival(cluster: FakeClusterThread) -> None:
    driver, rival = Driver(cluster), Driver(cluster)

    def stopped() -> None:
        take_over(rival)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        driver.run(0, stopped)


# -- commits without a clear answer ----------------------------------------------------------------------------------


def test_a_commit_whose_answers_are_lost_was_carried_out(cluster: FakeClusterThread) -> None:
    """The connection is cut after each try, for as long as anybody asks: the marker knows."""
    driver = Driver(cluster, default_api_timeout_ms=3_000)
    fault = cluster.fault(EndTxnRequest, drop="after", times=None)

    def job(handle: TransactionHandle) -> str:
        return driver.send(handle, "once")

    original = driver.steps.begin

    async def begin(step: int) -> Any:
        if driver.jobs:
            fault.times = fault.hits
        return await original(step)

    driver.steps.begin = begin  # type: ignore[method-assign]
    assert driver.attempts.run(0, job) == "once"
    assert fault.hits > 1
    assert visible(cluster) == ["once"]
    assert (driver.tally.committed, driver.tally.rerun) == (1, 0)


def test_a_commit_that_never_arrived_is_run_again(cluster: FakeClusterThread) -> None:
    driver = Driver(cluster)
    cluster.fault(EndTxnRequest, error=ErrorCode.UNKNOWN_SERVER_ERROR)
    assert driver.run(0) == "0:1"
    assert visible(cluster) == ["0:1"]
    assert driver.tally.rerun == 1


@pytest.mark.parametrize("applies", [True, False])
def test_the_last_attempt_is_judged_by_its_marker_too(cluster: FakeClusterThread, applies: bool) -> None:
    driver = Driver(cluster, attempts=1)
    cluster.fault(EndTxnRequest, error=ErrorCode.UNKNOWN_SERVER_ERROR, apply=applies)
    if applies:
        assert driver.run(0) == "0:0"
    else:
        with pytest.raises(TransactionAbortedError, match="tried 1 times"):
            driver.run(0)
    assert visible(cluster) == (["0:0"] if applies else [])


def test_a_marker_that_is_refused(cluster: FakeClusterThread) -> None:
    driver = Driver(cluster)
    cluster.fault(TxnOffsetCommitRequest, error=ErrorCode.TRANSACTION_ABORTABLE)
    assert driver.run(0) == "0:1"
    cluster.fault(TxnOffsetCommitRequest, error=ErrorCode.GROUP_AUTHORIZATION_FAILED)
    with pytest.raises(TransactionAbortedError, match="GROUP_AUTHORIZATION_FAILED") as caught:
        driver.run(1)
    assert isinstance(caught.value.__cause__, AuthorizationError)
    assert len(driver.jobs) == 3
    assert visible(cluster) == ["0:1"]


# -- time-outs and rivals --------------------------------------------------------------------------------------------


def test_a_transaction_that_timed_out_is_run_again_once(cluster: FakeClusterThread) -> None:
    driver = Driver(cluster)
    assert driver.run(0, time_out(cluster, driver)) == "0:1"
    with pytest.raises(TransactionAbortedError, match=r"took longer than transaction\.timeout\.ms=0 twice") as caught:
        driver.run(1, time_out(cluster, driver), time_out(cluster, driver))
    assert "maxOffsetsPerTrigger" in str(caught.value.hint)
    assert visible(cluster) == ["0:1"]


def test_a_job_that_fails_for_the_time_out(cluster: FakeClusterThread) -> None:
    driver = Driver(cluster)

    def late() -> None:
        time_out(cluster, driver)()
        raise RuntimeError("aioprod.errors.UndeliveredRowsError: INVALID_PRODUCER_EPOCH")

    assert driver.run(0, late) == "0:1"
    assert driver.tally.reasons == ["step 0: The transaction timed out."]


def test_an_abort_by_a_tool_is_no_time_out(cluster: FakeClusterThread, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(steps_module, "_TAKEOVER_S", 0.05)
    driver = Driver(cluster)

    def aborted() -> None:
        transactions = cluster.state.transactions
        cluster.call(transactions._fence, transactions["load"])

    with pytest.raises(TransactionAbortedError, match="by a tool"):
        driver.run(0, aborted)


@pytest.mark.parametrize("fails", [True, False])
def test_who_is_taken_over_stops(cluster: FakeClusterThread, fails: bool) -> None:
    driver, rival = Driver(cluster), Driver(cluster)

    def fenced() -> None:
        take_over(rival)
        if fails:
            raise RuntimeError("aioprod.errors.UndeliveredRowsError: INVALID_PRODUCER_EPOCH")

    with pytest.raises(ProducerFencedError):
        driver.run(0, fenced)
    assert visible(cluster) == []
    worker.run(rival.steps.commit(0))  # it was not fenced in turn
    assert cluster.committed_offset(GROUP, PLACE) == 1


def test_who_is_taken_over_while_it_commits_stops(cluster: FakeClusterThread) -> None:
    driver, rival = Driver(cluster), Driver(cluster)
    original = driver.steps._session.commit

    async def commit() -> None:
        await rival.steps.begin(0)
        await original()

    driver.steps._session.commit = commit  # type: ignore[method-assign]
    with pytest.raises(ProducerFencedError, match="took over, and this one stops"):
        driver.run(0)


# -- the marker ------------------------------------------------------------------------------------------------------


def test_the_marker_of_another_query_is_refused(cluster: FakeClusterThread) -> None:
    Driver(cluster, owner="old checkpoint").run(0)
    driver = Driver(cluster, owner="new checkpoint")
    with pytest.raises(UsageError, match="its marker is of 'old checkpoint', this is 'new checkpoint'"):
        driver.run(0)
    assert not driver.jobs


def lose_marker(cluster: FakeClusterThread) -> None:
    cluster.call(cluster.state.groups.pop, GROUP)


def test_a_marker_that_is_gone(cluster: FakeClusterThread) -> None:
    Driver(cluster).run(0)
    lose_marker(cluster)
    with pytest.raises(UsageError, match="is gone"):
        Driver(cluster).run(1)
    committed = Driver(cluster, when_marker_is_missing=Policy.ASSUME_COMMITTED.value)
    assert committed.run(1) is None
    assert cluster.committed_offset(GROUP, PLACE) == 2
    assert committed.run(2) == "2:0"
    lose_marker(cluster)
    with pytest.raises(UsageError, match="is gone"):
        committed.run(3)
    assert Driver(cluster, when_marker_is_missing=Policy.ASSUME_NOT_COMMITTED.value).run(3) == "3:0"
    assert visible(cluster) == ["0:0", "2:0", "3:0"]


def test_a_marker_that_stays_unstable_has_a_deadline(cluster: FakeClusterThread) -> None:
    """As after a whole cluster died between a commit and its end markers."""
    Driver(cluster).run(0)
    fault = cluster.fault(OffsetFetchRequest, error=ErrorCode.UNSTABLE_OFFSET_COMMIT, partition=PLACE, times=None)
    driver = Driver(cluster, default_api_timeout_ms=3_000)
    with pytest.raises(RequestTimedOutError, match=r"UNSTABLE_OFFSET_COMMIT.*kafka-transactions.sh find-hanging"):
        driver.run(1)
    fault.times = fault.hits
    assert driver.run(1) == "1:0"

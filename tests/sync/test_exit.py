"""Programs that end: what a producer that was not closed delivers then, and what it says."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from typing import Any

import pytest

from aioprod.messages import ProduceRequest
from tests.support.programs import interruptible
from tests.support.snippets import ROOT

HEAD = """
import logging, os, sys, threading
from aioprod.sync import Producer
logging.basicConfig(format="%(message)s", level=logging.WARNING)
servers = sys.argv[1]
"""
LINGER = "linger_ms=60_000, adaptive_linger=False"
"""Records stay until the end, however slow the machine."""
NOT_CLOSED = "was not closed before the interpreter ended, and delivers"


def run(servers: str, program: str, *options: str) -> subprocess.CompletedProcess[str]:
    """Run a program to its end."""
    code = HEAD + textwrap.dedent(program)
    return subprocess.run(
        [sys.executable, *options, "-c", code, servers],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
        preexec_fn=interruptible,
    )


def test_a_script_that_ends_with_a_send(fake_cluster: Any) -> None:
    """Nothing has started when it ends, and the name of the server is still to be looked up."""
    fake_cluster.create_topic("t")
    servers = fake_cluster.bootstrap.replace("127.0.0.1", "localhost")
    ended = run(
        servers, f"producer = Producer(servers, {LINGER})\nfor _ in range(500): producer.send_nowait('t', b'v')"
    )
    assert ended.returncode == 0
    assert ended.stderr.startswith(f"The producer {NOT_CLOSED} 500 records first. Hint: Use `with ")
    assert ended.stderr.count("\n") == 1
    assert len(fake_cluster.records("t")) == 500


def test_a_script_with_nothing_left_says_nothing(fake_cluster: Any) -> None:
    ended = run(
        fake_cluster.bootstrap, "producer = Producer(servers)\nproducer.send('t', b'v')\nprint('sent')", "-X", "dev"
    )
    assert (ended.returncode, ended.stdout) == (0, "sent\n")
    assert NOT_CLOSED not in ended.stderr


@pytest.mark.parametrize("end", ["sys.exit(3)", "raise ValueError('no')", "os.kill(os.getpid(), 2)"])
def test_a_script_that_is_ended(fake_cluster: Any, end: str) -> None:
    ended = run(
        fake_cluster.bootstrap,
        f"""
        producer = Producer(servers, client_id="shop", {LINGER})
        producer.send_nowait("t", b"0")
        {end}
        """,
    )
    assert ended.returncode != 0
    assert f"aioprod.sync.Producer 'shop' {NOT_CLOSED} 1 record first" in ended.stderr
    assert len(fake_cluster.records("t")) == 1


def test_threads_go_on_after_the_main_thread(fake_cluster: Any) -> None:
    ended = run(
        fake_cluster.bootstrap,
        """
        producer = Producer(servers)
        producer.send("t", b"0")  # Early releases of Python 3.12 start no threads from the end of the main one on.

        def work():
            threading.main_thread().join()
            producer.send("t", b"1")
            producer.send_nowait("t", b"2")

        threading.Thread(target=work).start()
        """,
    )
    assert ended.returncode == 0, ended.stderr
    assert len(fake_cluster.records("t")) == 3


def test_the_end_waits_for_a_bounded_time(fake_cluster: Any) -> None:
    fake_cluster.create_topic("t")
    held = fake_cluster.fault(ProduceRequest, hold=True, times=None)
    ended = run(
        fake_cluster.bootstrap,
        """
        producer = Producer(servers, close_timeout_ms=200)
        producer.send_nowait("t", b"0", on_delivery=lambda metadata, error: print(type(error).__name__))
        """,
    )
    assert ended.returncode == 0
    assert ended.stdout in ("UnknownOutcomeError\n", "NotSentError\n")
    assert f"{NOT_CLOSED} 1 record first" in ended.stderr
    fake_cluster.call(held.end)
    fake_cluster.call(held.release)


def test_a_producer_that_was_dropped_is_waited_for(fake_cluster: Any) -> None:
    ended = run(fake_cluster.bootstrap, f"Producer(servers, {LINGER}).send_nowait('t', b'v')")
    assert ended.returncode == 0
    assert "was dropped without being closed" in ended.stderr
    assert len(fake_cluster.records("t")) == 1


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_a_forked_child_delivers_its_own_records_only(fake_cluster: Any) -> None:
    fake_cluster.create_topic("t")
    ended = run(
        fake_cluster.bootstrap,
        """
        producer = Producer(servers)
        producer.send("t", b"0")
        producer.send_nowait("t", b"1")
        child = os.fork()
        if child:
            os.waitpid(child, 0)
        else:
            producer.send_nowait("t", b"2")
            sys.exit(0)
        """,
        "-W",
        "ignore",
    )
    assert ended.returncode == 0
    assert sorted(record.value for record in fake_cluster.records("t")) == [b"0", b"1", b"2"]

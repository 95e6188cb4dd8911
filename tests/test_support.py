"""The programs that run and judge tests: coverage of each room, processes that are stopped at random, bent timers."""

from __future__ import annotations

import json
import os
import random
import shlex
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.frozen import STOPPED, Processes
from tests.support.identity_provider import identity_provider
from tools.covered_rooms import main
from tools.lanes import FOLDER, Cost, line
from tools.lanes import main as lanes

SLEEPER = "import sys, time; print('up', flush=True); time.sleep(60)"
PARENT = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {SLEEPER!r}])"


def report(path: Path, **files: tuple[int, int, int, int]) -> str:
    """A report of slipcover: of each file lines, those that ran, branches, those that ran."""
    found = {
        name.replace("__", "/") + ".py": {
            "summary": {
                "covered_lines": lines_run,
                "missing_lines": lines - lines_run,
                "covered_branches": branches_run,
                "missing_branches": branches - branches_run,
            }
        }
        for name, (lines, lines_run, branches, branches_run) in files.items()
    }
    path.write_text(json.dumps({"files": found}))
    return str(path)


def test_each_room_is_shown(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    made = report(
        tmp_path / "report.json",
        aioprod__errors=(10, 10, 0, 0),
        aioprod__net__client=(80, 76, 20, 18),
        aioprod__net__link=(20, 20, 20, 20),
    )
    assert main([made, "90"]) == 0
    assert [line.split() for line in capsys.readouterr().out.splitlines()[1:]] == [
        ["aioprod", "100.0", "100.0"],
        ["aioprod/net", "96.0", "95.0"],
        ["all", "96.4", "95.0"],
    ]


@pytest.mark.parametrize(
    ("counts", "told"),
    [
        ((100, 89, 10, 10), "Only 89.0 % of the lines are covered; 90 % are the least."),
        ((100, 100, 10, 8), "Only 80.0 % of the branches are covered; 90 % are the least."),
    ],
)
def test_too_little_coverage_fails(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], counts: tuple[int, int, int, int], told: str
) -> None:
    assert main([report(tmp_path / "report.json", aioprod__errors=counts), "90"]) == 1
    assert capsys.readouterr().out.endswith(f"{told}\n")


def state_of(process: int) -> str:
    return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0]


@pytest.fixture
def parent() -> Iterator[subprocess.Popen[str]]:
    """A process with a child of its own."""
    with subprocess.Popen([sys.executable, "-c", PARENT], stdout=subprocess.PIPE, text=True) as started:
        assert started.stdout is not None
        assert started.stdout.readline() == "up\n"
        children = Processes(started.pid).descendants()
        yield started
        started.kill()
        for child in children:
            os.kill(child, 9)


class Always(random.Random):
    """Every choice falls on yes."""

    def random(self) -> float:
        return 0.0


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc")
def test_processes_are_stopped_and_go_on(parent: subprocess.Popen[str]) -> None:
    processes = Processes(parent.pid)
    (child,) = processes.descendants()
    with processes.stopped(Always()):
        # A signal takes effect some time after it was sent.
        while {state_of(parent.pid), state_of(child)} != {STOPPED}:
            time.sleep(0.001)
        assert processes.descendants() == []
    assert processes.descendants() == [child]


def test_timers_are_bent() -> None:
    """In a process of its own: importing the plugin changes the loops of the process."""
    program = "from tests.support.bent_timers import bent; print(*(bent(1.0) for _ in range(1000)))"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, cwd=Path.cwd())
    delays = [float(delay) for delay in done.stdout.split()]
    assert 0.999 <= min(delays) < 1.0
    assert 1.019 < max(delays) <= 1.02


# -- the identity provider -------------------------------------------------------------------------------------------


def test_a_client_that_stalls_does_not_hold_the_end_of_the_identity_provider() -> None:
    with identity_provider(patience_s=0.05) as idp, socket.socket() as client:
        client.settimeout(60)
        client.connect(("127.0.0.1", int(idp.url.rpartition(":")[2].removesuffix("/token"))))
        assert client.recv(1) == b"", "closed from the other side, while this one stays open"


def test_the_line_of_all_lanes() -> None:
    costs = [Cost("units", 12_000, 300.4, 280.0), Cost("brokers", 500, 400.0, 310.0)]
    assert line(costs) == (
        "brokers 500 tests, 400 s, 310 CPU s; units 12,000 tests, 300 s, 280 CPU s; all 12,500 tests, 400 s, 590 CPU s"
    )


def test_a_lane_counts_its_tests_and_the_cpu_of_processes_that_nobody_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    run = [sys.executable, "-m", "tools.lanes", "units"]
    environment = os.environ | {"PYTHONPATH": str(Path(__file__).parents[1])}
    busy = f"{shlex.quote(sys.executable)} -c 'import time\nwhile time.process_time() < 0.3: pass'"
    ended = subprocess.run(
        [*run, f'echo 3 >>"$AIOPROD_LANE"; echo 4 >>"$AIOPROD_LANE"; ({busy} &); exit 5'], env=environment, check=False
    )
    assert ended.returncode == 5
    cost = Cost(**json.loads((FOLDER / "units.json").read_text()))
    assert (cost.name, cost.tests) == ("units", 7)
    assert cost.cpu >= 0.2
    assert lanes([]) == 0
    assert capsys.readouterr().out.startswith("units 7 tests, ")

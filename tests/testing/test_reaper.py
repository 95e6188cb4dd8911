"""Nothing is left of a test run, however it ends."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

from aioprod.testing.kafka.reaper import Reaper, clean_up


def sleeper() -> subprocess.Popen[bytes]:
    """A process that would stay for long."""
    return subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])


def test_the_last_line_counts(tmp_path: Path) -> None:
    old, new = tmp_path / "old", tmp_path / "new"
    old.mkdir()
    new.mkdir()
    mark = [sys.executable, "-c", f"open({str(tmp_path / 'mark')!r}, 'w')"]
    with sleeper() as process:
        clean_up(
            [
                json.dumps({"pids": [], "commands": [], "folders": [str(old)]}),
                json.dumps({"pids": [process.pid], "commands": [mark], "folders": [str(new), "/no/such/folder"]}),
            ]
        )
        assert process.wait(10) == -signal.SIGKILL
    assert old.exists()
    assert not new.exists()
    assert (tmp_path / "mark").exists()


def test_processes_that_have_ended_are_ignored() -> None:
    process = sleeper()
    process.kill()
    process.wait()
    clean_up([json.dumps({"pids": [process.pid], "commands": [], "folders": []})])
    clean_up([])
    assert process.poll() is not None


def test_closing_acts_at_once(tmp_path: Path) -> None:
    folder = tmp_path / "data"
    folder.mkdir()
    with sleeper() as process:
        reaper = Reaper()
        reaper.watch(pids=[process.pid], folders=[str(folder)])
        reaper.close()
        assert process.wait(10) == -signal.SIGKILL
    assert not folder.exists()


def test_the_brokers_of_a_killed_process_end_too(tmp_path: Path) -> None:
    folder = tmp_path / "data"
    folder.mkdir()
    program = (
        "import os, signal, subprocess, sys\n"
        "from aioprod.testing.kafka.reaper import Reaper\n"
        "sleep = [sys.executable, '-c', 'import time; time.sleep(600)']\n"
        "process = subprocess.Popen(sleep, stdout=subprocess.DEVNULL)\n"
        f"Reaper().watch(pids=[process.pid], folders=[{str(folder)!r}])\n"
        "print(process.pid, flush=True)\n"
        "os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    killed = subprocess.run([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True, check=False)
    assert killed.returncode == -signal.SIGKILL
    deadline = time.monotonic() + 20
    while folder.exists() or is_running(int(killed.stdout)):
        assert time.monotonic() < deadline
        time.sleep(0.02)


def is_running(pid: int) -> bool:
    """Whether the process is there, and not only as a zombie that waits for its parent."""
    try:
        os.kill(pid, 0)
        state = subprocess.run(["ps", "-o", "stat=", "-p", str(pid)], stdout=subprocess.PIPE, text=True, check=False)
    except ProcessLookupError:
        return False
    return bool(state.stdout.strip()) and not state.stdout.startswith("Z")

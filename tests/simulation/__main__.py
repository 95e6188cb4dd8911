"""`python -m tests.simulation`: run seeds on all cores, or replay one of them with its whole trace."""

from __future__ import annotations

import argparse
import gc
import json
import logging
import os
import random
import resource
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from importlib import import_module
from typing import TYPE_CHECKING, Any

from tests.simulation.mutations import MUTATIONS
from tests.simulation.workers import Workers, bound_process, bound_seed

if TYPE_CHECKING:
    from tests.simulation.run import Result

# aioprod itself is imported later: a mutation has to be applied before.

WARM_UP_SEED = -1
PROGRESS = 2000
DRAWN = (10**9, 10**12)
"""From where `--from new` draws: so many that hardly any was run before."""
KINDS = {
    "producers": ("run:run_seed", "plan:Plan", "producers, transactions and log-ins; this is the default"),
    "members": ("member_run:run_member_seed", "member_plan:MemberPlan", "members at work"),
    "spool": ("spool_run:run_spool_seed", "spool_plan:SpoolPlan", "a queue on disk, without Kafka"),
    "spooled": ("spooled_run:run_spooled_seed", "spooled_plan:SpooledPlan", "producers that keep records on disk"),
}
"""What seeds may be of: what runs one, its plan, and a description."""
RUNS, PLANS = 0, 1
HASH_SEED = "0"
"""A run depends on the order of sets of strings: it has to be the same in all processes."""


def main() -> int:
    """Return the exit status: 1 if a seed broke a guarantee."""
    parser = argparse.ArgumentParser(prog="python -m tests.simulation", description=__doc__)
    parser.add_argument("--seeds", type=int, default=1000, help="how many seeds to run")
    parser.add_argument("--from", type=_seed, default=0, dest="first", help="the first of them; new: any other one")
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1, help="one for each core by default")
    parser.add_argument("--replay", type=int, metavar="SEED", help="run one seed and show its trace")
    parser.add_argument("--stop", action="store_true", help="stop at the first seed that breaks a guarantee")
    parser.add_argument("--mutation", choices=MUTATIONS, metavar="NAME", help="break the producer first")
    parser.set_defaults(kind="producers")
    for kind, (_, _, what) in KINDS.items():
        parser.add_argument(f"--{kind}", action="store_const", dest="kind", const=kind, help=what)
    parser.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if os.environ.get("PYTHONHASHSEED") != HASH_SEED:
        environment = os.environ | {"PYTHONHASHSEED": HASH_SEED}
        return subprocess.run(_command(*sys.argv[1:]), env=environment, check=False).returncode
    if options.mutation is not None and (options.worker or options.replay is not None):
        MUTATIONS[options.mutation].apply()
    if options.replay is not None:
        return _replay(options.replay, options.kind)
    if options.worker:
        seeds = range(options.first, options.first + options.seeds, options.processes)
        for line in _work(seeds, options.kind):
            print(line, flush=True)
        return 0
    return _run_all(options)


def _command(*arguments: str) -> list[str]:
    return [sys.executable, "-W", "error", "-m", "tests.simulation", *arguments]


def _seed(text: str) -> int:
    """A seed, or one that was hardly run before."""
    return random.randrange(*DRAWN) if text == "new" else int(text)


def _part(kind: str, which: int) -> Any:
    module, _, name = KINDS[kind][which].partition(":")
    return getattr(import_module(f"tests.simulation.{module}"), name)


def _replay(seed: int, kind: str) -> int:
    bound_process()
    bound_seed()
    logging.basicConfig()
    run_seed: Callable[..., Result] = _part(kind, RUNS)
    print(_part(kind, PLANS).draw(seed))
    result = run_seed(seed, print)
    print(f"seed {seed}: {result.digest}")
    print(*(result.problems or ["No promise was broken."]), sep="\n")
    return bool(result.problems)


def _work(seeds: range, kind: str) -> Iterator[str]:
    """Run seeds; yield a line of JSON for each."""
    run_seed: Callable[..., Result] = _part(kind, RUNS)
    if kind != "producers":
        logging.disable()  # What fails on purpose are most of the lines.
    bound_process()
    run_seed(WARM_UP_SEED)
    # Objects that exist by now stay alive, so the collection after each seed need not traverse them.
    gc.collect()
    gc.freeze()
    for seed in seeds:
        bound_seed()
        result = run_seed(seed)
        yield json.dumps(vars(result))


def _run_all(options: argparse.Namespace) -> int:
    from aioprod import COMPILED

    def share(seeds: range) -> list[str]:
        more = [f"--{options.kind}"]
        more += [] if options.mutation is None else [f"--mutation={options.mutation}"]
        count = seeds.stop - seeds.start
        return _command("--worker", f"--from={seeds.start}", f"--seeds={count}", f"--processes={seeds.step}", *more)

    build = "compiled" if COMPILED else "interpreted"
    print(f"{options.seeds} seeds from {options.first} on, {options.processes} processes, {build}", flush=True)
    start = time.perf_counter()
    injected: Counter[str] = Counter()
    outcomes: Counter[str] = Counter()
    simulated_s, done = 0.0, 0
    failed: list[int] = []
    with Workers(range(options.first, options.first + options.seeds), options.processes, share) as workers:
        for result in workers.results():
            done += 1
            if done % PROGRESS == 0:
                print(f"{done} seeds, {time.perf_counter() - start:.0f} s", flush=True)
            injected.update(result["injected"])
            outcomes.update(result["outcomes"])
            simulated_s += result["simulated_s"]
            if result["problems"]:
                failed.append(result["seed"])
                _show_failure(result, options.kind)
                if options.stop:
                    break
    took_s = time.perf_counter() - start
    print(f"{done} seeds in {took_s:.1f} s: {done / took_s:.1f} seeds/s; {simulated_s / 3600:.1f} simulated hours")
    peak_mb = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024
    print(f"The largest process had {peak_mb:.0f} MB.")
    print("Faults:", ", ".join(f"{count} {kind}" for kind, count in injected.most_common()))
    print("Records:", ", ".join(f"{count} {outcome}" for outcome, count in outcomes.most_common()))
    if done < options.seeds and not options.stop:
        print(f"Only {done} of {options.seeds} seeds were run: a process has died.")
        return 1
    print(f"{len(failed)} seeds broke a promise: {sorted(failed)}" if failed else "Every promise was kept.")
    return bool(failed)


def _show_failure(result: dict[str, Any], kind: str) -> None:
    print(f"Seed {result['seed']} (make simulate KIND={kind} REPLAY={result['seed']}):")
    for problem in result["problems"][:5]:
        print(f"  {problem[:1000]}", flush=True)


if __name__ == "__main__":
    sys.exit(main())

"""`python -m tests.simulation.resolving`: seeds of the model that finds out about unknown batches."""

from __future__ import annotations

import argparse
import sys

from tests.simulation.mutations import MUTATIONS


def main() -> int:
    """Return the exit status: 1 at the first seed with a wrong verdict."""
    parser = argparse.ArgumentParser(prog="python -m tests.simulation.resolving", description=__doc__)
    parser.add_argument("--seeds", type=int, default=1000, help="how many seeds to run")
    parser.add_argument("--mutation", choices=MUTATIONS, metavar="NAME", help="break the producer first")
    options = parser.parse_args()
    if options.mutation is not None:
        MUTATIONS[options.mutation].apply()
    from tests.support.resolving_model import judged_run

    for seed in range(options.seeds):
        try:
            judged_run(seed)
        except AssertionError as error:
            print(f"Seed {seed} of the model:\n  {' '.join(str(error).split())[:300] or 'the model is in disorder'}")
            return 1
    print("Each verdict was right.")
    return 0


if __name__ == "__main__":
    sys.exit(main())

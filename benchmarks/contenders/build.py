"""Which build of aioprod this process has."""

from __future__ import annotations

import aioprod
from benchmarks.job import Job

__all__ = ["check_build"]


def check_build(job: Job) -> None:
    """Raise AssertionError if this is not the build that the job requires."""
    assert (job.build == "compiled") == aioprod.COMPILED, (
        f"The job asks for the {job.build} build, and the other one runs: build the modules with `make compiled`."
    )

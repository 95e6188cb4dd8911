"""Fuzzing of everything that parses bytes: `make fuzz SECONDS=300` looks for bytes with effects that no peer may cause.

A target takes any bytes and checks what must hold for them. Atheris finds the bytes, guided by the coverage of the
interpreted modules; `tests/fuzz` runs the same targets on both builds, over the seeds, over earlier findings
(`findings/`), and over seeds that Hypothesis has damaged.
"""

"""Hostile bytes for everything that reads bytes: `make fuzz SECONDS=300` looks for what no answer of a peer may cause.

A target takes any bytes and checks what must hold for them. Atheris finds the bytes, guided by the coverage of the
interpreted modules; `tests/fuzz` runs the same targets on both builds, over the seeds, over what was once found
(`findings/`), and over damage that Hypothesis does to the seeds.
"""

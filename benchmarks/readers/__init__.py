"""The CPU time of reading: `python -m benchmarks.readers`."""

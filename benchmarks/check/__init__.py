"""Compare the instructions of the hot calls of two commits: `make bench-check`, described in `benchmarks/README.md`."""

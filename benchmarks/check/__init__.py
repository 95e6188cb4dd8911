"""Instructions of the hot calls, a commit beside its parent: `make bench-check`; `benchmarks/README.md` says more."""

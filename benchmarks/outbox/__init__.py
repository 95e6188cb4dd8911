"""An outbox as a library beside the one that `examples/orders` had before: `python -m benchmarks.outbox`."""

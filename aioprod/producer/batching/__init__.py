"""The accumulator: topics, partitions, batches, sequence numbers, the drain. No I/O, no event loop, no clock."""

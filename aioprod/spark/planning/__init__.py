"""How many partitions a topic needs, and which partitioner: found out from the data themselves."""

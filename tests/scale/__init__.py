"""What happens at sizes that no machine of ours has: one producer in large clusters, and thousands of producers.

`python -m tests.scale` measures and simulates everything, and writes the figures and pictures of `docs/scale.md`. A
module per part: `single` measures one producer against a stub of a large cluster, `crowd` computes what 10,000
producers cost, `restarts` has them come back at once, `rolling` restarts every broker of a cluster, `split` cuts a
network in two.
"""

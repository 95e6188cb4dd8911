"""Hours of load in every style of sending, on three brokers whose log-ins end, whose certificates change and that fail.

`python -m integration.soak --minutes 60` (`make soak`) says whether every record arrived once and in order, and whether
the process that sent and read them needs more memory, tasks, threads or files at the end than at the beginning.
"""

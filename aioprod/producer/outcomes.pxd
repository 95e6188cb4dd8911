cimport cython

from aioprod.producer.batching.accumulator cimport Accumulator
from aioprod.producer.batching.batch cimport Batch
from aioprod.producer.batching.lifecycle cimport complete, land
from aioprod.producer.batching.sequences cimport Sequences
from aioprod.producer.meters cimport Meters


@cython.final
cdef class Outcomes:
    cdef object _settings, _unknown, _completions, _rules, _backoff, _scheduler, _unforeseen
    cdef Accumulator _accumulator
    cdef Meters _meters
    cdef readonly object explainer, event_log
    cdef object _retries_stopped

    cpdef acknowledge(self, Batch batch, long long base_offset, long long append_time, double now)
    @cython.locals(sequences=Sequences)
    cdef _deliver(self, Batch batch, long long base_offset, long long append_time, double now)
    cdef bint _is_orphan(self, Batch batch) except -1

cimport cython

from aioprod.producer.batching.accumulator cimport Accumulator
from aioprod.producer.batching.buffer_memory cimport MemoryBudget
from aioprod.producer.batching.stuck_share cimport StuckShare
from aioprod.records.bounds cimport loose_bound
from aioprod.producer.clock cimport Clock
from aioprod.sync.entry cimport Entry, new_entry


@cython.final
cdef class Inbox:
    cdef object _acquire, _release, _timestamp_ms, _wake, _failed
    cdef Clock _clock
    cdef MemoryBudget _budget
    cdef set _names
    cdef list _entries, _outgoing
    cdef long long _limit, _request_size_max, _bound_max, _bytes, _records
    cdef double _newest_s
    cdef bint _is_open, _is_awake
    cdef object _last_full

    cpdef put(self, topic, value, key, partition, headers, timestamp, waiter)
    @cython.locals(encoded=bytes, index=int, at_ms="long long")
    cpdef Entry entry(self, topic, value, key, partition, headers, timestamp, waiter)
    @cython.locals(now_ns="long long", bound=Py_ssize_t)
    cdef Entry _checked(
        self, str topic, bytes key, bytes value, bytes headers, int partition, long long timestamp, waiter
    )
    @cython.locals(bound="long long", stuck=StuckShare)
    cpdef bint enter(self, Entry entry) except -1
    @cython.locals(moved="long long", records="long long", entry=Entry)
    cpdef move(self, Accumulator accumulator, Py_ssize_t most)
    cdef bint _take(self) except -1

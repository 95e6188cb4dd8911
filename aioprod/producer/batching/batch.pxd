cimport cython

from aioprod.producer.batching.partition cimport Partition, Topic
from aioprod.records.builder cimport RecordBatchBuilder


cdef int IN_FLIGHT, OPEN


@cython.final
@cython.freelist(64)
cdef class Run:
    cdef public object bulk
    cdef public long long count, first


cdef class FlushBarrier:
    cdef public object done
    cdef public long long pending

    cpdef void add(self) except *
    cpdef void remove(self) except *


@cython.final
cdef class Batch:
    cdef public Partition partition
    cdef public RecordBatchBuilder builder
    cdef public list waiters, barriers, former
    cdef public set withdrawn
    cdef public object places, topic_id, broker, code, cause, unknown
    cdef public long long serial, records, record_bytes, producer_id, base_sequence
    cdef public double created, deadline, open_until
    cdef public Py_ssize_t full_position
    cdef public int units
    cdef public Py_ssize_t room
    cdef public int state, attempts, epoch
    cdef public bint maybe_stored, sealed, stamped, compressing, on_wire, unanswered, retrying, released, was_redirected

    cpdef Py_ssize_t withdraw(self, waiter) except -1


@cython.final
cdef class ParkedRecord:
    cdef public Topic topic
    cdef public bytes key, value, headers
    cdef public object waiter
    cdef public Batch moved_to
    cdef public list barriers
    cdef public int partition
    cdef public long long timestamp, size
    cdef public double accepted, deadline
    cdef public bint withdrawn

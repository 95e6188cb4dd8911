cimport cython

from aioprod.producer.batching.batch cimport Batch
from aioprod.producer.batching.partition cimport Partition, Topic


cpdef long long sequence_after(long long first, long long count) noexcept


@cython.final
cdef class Sequences:
    cdef public long long producer_id, transaction, stamped_in, bumps
    cdef public int epoch
    cdef public bint transactional, is_exhausted
    cdef object _events, _rules
    cdef public dict unresolved

    cpdef bint admits(self, Partition partition) except -1
    cpdef void stamp(self, Partition partition, Batch batch) except *
    cdef bint _is_behind(self, Partition partition) except -1
    @cython.locals(batch=Batch)
    cdef void _begin(self, Partition partition, long long producer_id, int epoch) except *
    @cython.locals(partition=Partition)
    cpdef void acknowledge(self, Batch batch, long long base_offset) except *
    @cython.locals(partition=Partition)
    cpdef void lose(self, Batch batch, bint is_missing) except *
    @cython.locals(partition=Partition)
    cpdef bint out_of_sequence(self, Batch batch) except -1
    @cython.locals(partition=Partition)
    cpdef bint is_forgotten(self, Batch batch) except -1
    cpdef void unestablish(self, Partition partition) except *
    @cython.locals(part=Batch, at=Py_ssize_t, sequence="long long")
    cpdef void split(self, Batch batch, list parts) except *
    @cython.locals(partition=Partition)
    cpdef bint forget(self, Topic topic) except -1
    cdef void _miss(self, Partition partition, long long serial) except *
    cdef void _request_id(self) except *
    cdef void _mark(self, Partition partition) except *
    @cython.locals(first=Batch)
    cpdef void resolve(self, Partition partition) except *
    @cython.locals(partition=Partition)
    cpdef list set_producer_id(self, long long producer_id, int epoch)

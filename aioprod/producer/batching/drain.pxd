cimport cython

from aioprod.producer.batching.accumulator cimport Accumulator
from aioprod.producer.batching.batch cimport Batch
from aioprod.producer.batching.partition cimport BrokerQueue, Partition


cdef int IN_FLIGHT


@cython.locals(
    partition=Partition, batch=Batch, open_batch=Batch, batches=list, size=Py_ssize_t, raw=Py_ssize_t, batch_size=Py_ssize_t, left=Py_ssize_t, is_open=bint,
)
cpdef list drain(
    Accumulator accumulator, BrokerQueue queue, double now, Py_ssize_t size_max, Py_ssize_t raw_max, bint unfinished
)

cdef bint may_send(Accumulator accumulator, Partition partition, double now) except -1

cdef bint is_too_large(Batch batch) except -1

cdef bint is_prepared(Accumulator accumulator, Batch batch) except -1

@cython.locals(batch=Batch)
cdef Batch take(Accumulator accumulator, Partition partition, double now)

@cython.locals(partition=Partition, batch=Batch)
cpdef void close_due(Accumulator accumulator, BrokerQueue queue, double now) except *

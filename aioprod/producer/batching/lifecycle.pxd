cimport cython

from aioprod.producer.batching.accumulator cimport Accumulator
from aioprod.producer.batching.batch cimport Batch, FlushBarrier
from aioprod.producer.batching.partition cimport Partition


cdef int OPEN, QUEUED, COMPLETED


cpdef void reevaluate(Accumulator accumulator, Partition partition, double now) except *

cpdef bint land(Accumulator accumulator, Batch batch, double now) except -1

cpdef bint compressed(Accumulator accumulator, Batch batch, double now) except -1

@cython.locals(partition=Partition)
cpdef void requeue(Accumulator accumulator, Batch batch, double now, double delay_s) except *

@cython.locals(partition=Partition)
cpdef void complete(Accumulator accumulator, Batch batch, double now) except *

@cython.locals(barrier=FlushBarrier)
cpdef void release(Accumulator accumulator, Batch batch) except *

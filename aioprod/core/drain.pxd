cimport cython

from aioprod.core.accumulator cimport Accumulator
from aioprod.core.batch cimport Batch
from aioprod.core.partition cimport BrokerQueue, Partition


@cython.locals(batches=list, size=Py_ssize_t, partition=Partition, batch=Batch, open_batch=Batch, _=Py_ssize_t)
cpdef list drain(Accumulator accumulator, BrokerQueue queue, double now, Py_ssize_t size_max, bint unfinished)

@cython.locals(batch=Batch)
cpdef Batch take(Accumulator accumulator, Partition partition, double now)

@cython.locals(partition=Partition)
cpdef void finish_due(Accumulator accumulator, BrokerQueue queue, double now) except *

cimport cython

from aioprod.producer.batching.accumulator cimport Accumulator
from aioprod.producer.batching.batch cimport Batch
from aioprod.records.bounds cimport bound_of
from aioprod.records.builder cimport RecordBatchBuilder
from aioprod.records.cursor cimport RecordCursor


cdef int IN_FLIGHT


@cython.locals(cursor=RecordCursor, bound=Py_ssize_t, size=Py_ssize_t, size_max=Py_ssize_t)
cpdef void split(Accumulator accumulator, Batch batch, double now) except *

@cython.locals(
    cursor=RecordCursor, builder=RecordBatchBuilder, part=Batch, index=Py_ssize_t, bounds=Py_ssize_t,
)
cpdef Batch _part(Batch batch, list chunk, list waiters)

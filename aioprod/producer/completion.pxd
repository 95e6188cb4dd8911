cimport cython

from aioprod.producer.batching.batch cimport Batch
from aioprod.record_metadata cimport RecordMetadata
from aioprod.records.cursor cimport RecordCursor


@cython.final
cdef class Completion:
    cdef readonly Batch batch
    cdef readonly RecordCursor cursor
    cdef readonly str topic
    cdef readonly object failure
    cdef public object waiter
    cdef readonly long long base_offset, append_time
    cdef public Py_ssize_t entry, completed, behind, unwatched

    cpdef Py_ssize_t next_index(self) except -1
    cpdef RecordCursor step(self)
    @cython.locals(cursor=RecordCursor, metadata=RecordMetadata)
    cpdef RecordMetadata metadata(self)
    cpdef record(self)

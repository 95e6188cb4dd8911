cimport cython

from aioprod.consumed_record cimport ConsumedRecord
from aioprod.records.parser cimport RecordReader


@cython.final
cdef class ConsumedRecords:
    cdef RecordReader _reader
    cdef str _topic
    cdef int _partition
    cdef long long _start, _end
    cdef list _decoded
    cdef Py_ssize_t _taken
    cdef bint _is_left
    cdef object _failure

    @cython.locals(record=ConsumedRecord)
    cpdef ConsumedRecord next(self)
    @cython.locals(record=ConsumedRecord)
    cpdef ConsumedRecord step(self)
    @cython.locals(found=list)
    cpdef list some(self, Py_ssize_t most)
    @cython.locals(found=list)
    cdef bint _decode(self) except -1

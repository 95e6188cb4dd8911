cimport cython
from cpython cimport time

from aioprod.records.bounds cimport record_size_bound
from aioprod.records.builder cimport RecordBatchBuilder


cdef Py_ssize_t PREFIX, HEADER


cdef class BatchBuilder:
    cdef readonly RecordBatchBuilder encoded
    cdef Py_ssize_t _size_max, _full_position
    cdef object _key_serializer, _value_serializer, __weakref__
    cdef bint _closed

    @cython.locals(builder=RecordBatchBuilder, held=Py_ssize_t, bound=Py_ssize_t, first=Py_ssize_t)
    cdef Py_ssize_t _append_grown(self, long long at_ms, bytes key, bytes value, bytes headers) except -1

cimport cython

from aioprod.wire cimport memory
from aioprod.records.cursor cimport RecordCursor


cdef Py_ssize_t _LOOSE

cpdef Py_ssize_t record_size_bound(bytes key, bytes value, bytes headers=*) except -1

@cython.locals(size=Py_ssize_t)
cpdef Py_ssize_t size_bound(Py_ssize_t key_size, Py_ssize_t value_size, Py_ssize_t headers_size) noexcept

cpdef Py_ssize_t bound_of(RecordCursor cursor) except -1

@cython.locals(bound=Py_ssize_t)
cpdef Py_ssize_t loose_bound(bytes key, bytes value, bytes headers) except -1

cimport cython

from aioprod.wire cimport memory
from aioprod.wire.buffer cimport Reader, Writer


cdef int _SIZE_WIDTH, _CORRELATION_WIDTH


@cython.final
cdef class FrameSplitter:
    cdef bytearray _partial
    cdef Py_ssize_t _size_max

    @cython.locals(view=memoryview, position=Py_ssize_t, end=Py_ssize_t, first=Py_ssize_t, last=Py_ssize_t)
    cpdef list feed(self, data)
    @cython.locals(partial=bytearray, whole=Py_ssize_t, end=Py_ssize_t)
    cdef Py_ssize_t _fill(self, memoryview view, Py_ssize_t position, list frames) except -1
    @cython.locals(size=Py_ssize_t)
    cdef Py_ssize_t _size(self, data, Py_ssize_t position) except -1


@cython.locals(reader=Reader, correlation_id=int, flexible=bint, view=memoryview, start=Py_ssize_t)
cpdef tuple decode_response_header(response, version, payload)

cpdef bytes request_header(api_key, version, flexible, correlation_id, client_id)

cdef _skip_tags(Reader reader)

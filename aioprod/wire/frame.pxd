cimport cython

from aioprod.wire cimport memory
from aioprod.wire.buffer cimport Reader, Writer


cdef int _SIZE_WIDTH, _CORRELATION_WIDTH, _FIXED_WIDTH
cdef Py_ssize_t _FRESH_MAX


@cython.final
cdef class FrameSplitter:
    cdef memoryview _near
    cdef bytearray _frame
    cdef Py_ssize_t _near_end, _filled, _size, _size_max

    @cython.locals(frame=bytearray)
    cpdef memoryview room(self)
    @cython.locals(near="const unsigned char *", end=Py_ssize_t, position=Py_ssize_t, size=Py_ssize_t)
    cpdef list received(self, Py_ssize_t count)
    cdef list _received_far(self, bytearray frame, Py_ssize_t count)
    cdef _begin(self, Py_ssize_t size, Py_ssize_t position, Py_ssize_t end)
    @cython.locals(view=memoryview, position=Py_ssize_t, count=Py_ssize_t)
    cpdef list feed(self, data)
    @cython.locals(room=memoryview, count=Py_ssize_t)
    cdef Py_ssize_t _copy(self, memoryview data) except -1


@cython.locals(reader=Reader, correlation_id=int, flexible=bint, view=memoryview, start=Py_ssize_t, data="const unsigned char *")
cpdef tuple decode_response_header(response, version, payload)

cpdef bytes request_head(Py_ssize_t size, int api_key, int version, int correlation_id, bytes client)

cdef _skip_tags(Reader reader)

cimport cython

from aioprod.wire cimport memory

cdef long long HEADERS_MAX


cdef class FieldReader:
    cdef memoryview _view
    cdef const unsigned char *_bytes
    cdef public Py_ssize_t position, end

    @cython.locals(zigzag="unsigned long long", byte="unsigned long long", shift=int, at=Py_ssize_t)
    cpdef long long varint(self, int bits) except? -1
    @cython.locals(size="long long")
    cpdef bytes nullable(self)
    @cython.locals(count="long long")
    cpdef tuple headers(self)
    @cython.locals(size="long long", name=str)
    cdef tuple _header(self)
    @cython.locals(taken=bytes)
    cdef bytes _take(self, Py_ssize_t size)

cimport cython

from aioprod.wire cimport memory

cdef long long _HEADERS_MAX


cdef class FieldReader:
    cdef memoryview _view
    cdef const unsigned char *_bytes
    cdef public Py_ssize_t position, end

    @cython.locals(zigzag="unsigned long long", byte="unsigned long long", shift=int, at=Py_ssize_t)
    cpdef long long varint(self, int bits) except? -1
    @cython.locals(size="long long")
    cpdef bytes nullable(self)
    @cython.locals(size="long long")
    cpdef long long nullable_size(self) except? -1
    @cython.locals(count="long long")
    cpdef tuple headers(self)
    @cython.locals(count="long long", left="long long", size="long long", start=Py_ssize_t)
    cpdef long long skip_headers(self) except -1
    @cython.locals(count="long long")
    cpdef long long header_count(self) except -1
    @cython.locals(size="long long")
    cpdef long long header_name_size(self) except -1
    @cython.locals(size="long long", name=str)
    cpdef long long header_value_size(self, Py_ssize_t name_start, Py_ssize_t name_size) except? -1
    @cython.locals(name_size=Py_ssize_t, start=Py_ssize_t, size="long long", name=str)
    cdef tuple _header(self)
    cdef str _text(self, Py_ssize_t start, Py_ssize_t size)
    cdef int _check_end(self) except -1
    @cython.locals(taken=bytes)
    cdef bytes _take(self, Py_ssize_t size)

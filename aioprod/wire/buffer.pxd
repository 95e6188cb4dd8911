cimport cython

from aioprod.wire cimport memory


@cython.final
cdef class Writer:
    cdef bytearray _data

    cpdef bytes getvalue(self)
    cpdef write(self, data)
    cpdef int8(self, value)
    cpdef int16(self, value)
    cpdef int32(self, value)
    cpdef int64(self, value)
    cpdef uuid(self, value)
    cpdef uvarint(self, value)
    cpdef varint(self, value)
    @cython.locals(data=bytearray)
    cdef void _uvarint(self, unsigned long long value) except *
    cpdef string(self, value)
    cpdef compact_string(self, value)
    cpdef bytes_(self, value)
    cpdef compact_bytes(self, value)
    cpdef count(self, value)
    cpdef compact_count(self, value)


@cython.final
cdef class Reader:
    cdef memoryview _view
    cdef const unsigned char *_bytes
    cdef Py_ssize_t _end
    cdef readonly Py_ssize_t position

    @cython.locals(position=Py_ssize_t)
    cpdef memoryview take(self, Py_ssize_t size)
    cpdef memoryview rest(self)
    @cython.locals(position=Py_ssize_t)
    cdef Py_ssize_t _advance(self, Py_ssize_t size) except -1
    cpdef bint boolean(self) except -1
    cpdef int int8(self) except? -1
    cpdef int int16(self) except? -1
    cpdef int int32(self) except? -1
    cpdef integer(self, Py_ssize_t size)
    cpdef int64(self)
    cpdef uuid(self)
    @cython.locals(value="unsigned long long", byte="unsigned long long", shift=int)
    cpdef Py_ssize_t uvarint(self) except -1
    cpdef str string(self)
    cpdef str compact_string(self)
    @cython.locals(length=Py_ssize_t)
    cpdef memoryview bytes_(self)
    @cython.locals(length=Py_ssize_t)
    cpdef memoryview compact_bytes(self)
    cpdef Py_ssize_t count(self) except -2
    cpdef Py_ssize_t compact_count(self) except -2
    cdef Py_ssize_t _length(self, Py_ssize_t value) except -2
    @cython.locals(position=Py_ssize_t)
    cdef str _text(self, Py_ssize_t length)
    cdef _too_short(self, Py_ssize_t size)

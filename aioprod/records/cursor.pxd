cimport cython


@cython.final
cdef class RecordCursor:
    cdef readonly bytearray buffer
    cdef long long _base_timestamp
    cdef Py_ssize_t _limit, _position
    cdef readonly Py_ssize_t index, start, end, key_start, key_size, value_start, value_size, headers_start
    cdef readonly long long timestamp

    @cython.locals(
        p="const unsigned char *", position=Py_ssize_t, byte="long long", second="long long", value="long long"
    )
    cpdef bint next(self)
    cpdef void follow(self, builder) except *
    cpdef void go_to(self, Py_ssize_t index) except *

    @cython.locals(body_size=Py_ssize_t)
    cpdef bint skip(self, Py_ssize_t count)

    @cython.locals(byte="unsigned long long", zigzag="unsigned long long", shift=int)
    cdef long long _varint(self, Py_ssize_t position) noexcept

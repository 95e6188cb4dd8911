cimport cython

from aioprod.arrow cimport memory


cdef long long _MS_PER_S, _SECONDS_MAX


@cython.final
cdef class Span:
    cdef readonly Py_ssize_t first, length
    cdef readonly bint nullable
    cdef const unsigned char *_bits

    @cython.locals(at=Py_ssize_t)
    cdef bint is_null(self, Py_ssize_t row) noexcept


@cython.final
cdef class NumberColumn:
    cdef Span _span
    cdef const unsigned char *_numbers
    cdef Py_ssize_t _width
    cdef long long _mask
    cdef readonly long long value

    @cython.locals(span=Span)
    cpdef bint find(self, Py_ssize_t row) noexcept


@cython.final
cdef class TimestampColumn:
    cdef NumberColumn _numbers
    cdef long long _per_second
    cdef readonly long long ms

    @cython.locals(given="long long", per_second="long long")
    cpdef bint find(self, Py_ssize_t row) except -1


@cython.final
cdef class BytesColumn:
    cdef Span _span
    cdef int _layout
    cdef const unsigned char *_blocks
    cdef const unsigned char *data
    cdef const unsigned char *places
    cdef object _held
    cdef NumberColumn _indices
    cdef BytesColumn _values
    cdef readonly Py_ssize_t block_count, data_size, first, start, size, width
    cdef readonly bint is_plain

    @cython.locals(at=Py_ssize_t, start=Py_ssize_t, end=Py_ssize_t)
    cpdef bint find(self, Py_ssize_t row) except -1
    cdef bint _raise_broken(self) except -1
    cdef bint _find_other(self, Py_ssize_t row, Py_ssize_t at) except -1
    @cython.locals(size=Py_ssize_t, block=Py_ssize_t, start=Py_ssize_t, block_size=Py_ssize_t)
    cdef void _find_view(self, Py_ssize_t at) except *
    @cython.locals(indices=NumberColumn, values=BytesColumn)
    cdef bint _find_value(self, Py_ssize_t row) except -1
    cpdef get(self)


@cython.final
cdef class PairsColumn:
    cdef Span _span, _pairs
    cdef const unsigned char *_offsets
    cdef Py_ssize_t _width
    cdef readonly BytesColumn names, values
    cdef readonly Py_ssize_t first, count

    @cython.locals(span=Span, at=Py_ssize_t, end=Py_ssize_t)
    cpdef bint find(self, Py_ssize_t row) except -1
    @cython.locals(named=bint)
    cpdef bint find_pair(self, Py_ssize_t pair) except -1
    @cython.locals(pair=Py_ssize_t, name=bytes)
    cpdef get(self, Py_ssize_t row)

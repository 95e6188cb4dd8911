cimport cython

from aioprod.arrow.columns cimport BytesColumn, NumberColumn
from aioprod.routing.hashes cimport partition_of


cdef long long _PARTITIONS_MAX


@cython.final
cdef class Rule:
    cdef readonly int kind
    cdef readonly bint hashes_null, hashes_empty


@cython.final
cdef class Filling:
    cdef Rule _rule
    cdef long long _count, _turn
    cdef bint _spreads
    cdef Py_ssize_t _filled
    cdef object _indexes, _present
    cdef readonly Py_ssize_t spread

    @cython.locals(
        rule=Rule, indexes="int[::1]", present="unsigned char[::1]", at=Py_ssize_t, row=Py_ssize_t, count="long long",
        is_hashed=bint,
    )
    cpdef add(self, BytesColumn keys, NumberColumn counts, Py_ssize_t length)

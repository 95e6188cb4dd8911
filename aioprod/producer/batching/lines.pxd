cimport cython

from aioprod.wire cimport memory
from aioprod.records.builder cimport RecordBatchBuilder


cdef Py_ssize_t _END, _END_SIZE, _PLACE_SIZE, _SIZE_GUESSED


@cython.final
cdef class Lines:
    cdef readonly bytes data
    cdef readonly bytearray places
    cdef readonly Py_ssize_t first, count

    cdef Py_ssize_t append_to(
        self, RecordBatchBuilder builder, long long timestamp, Py_ssize_t start, Py_ssize_t size_max
    ) noexcept


@cython.locals(
    size=Py_ssize_t, room=Py_ssize_t, places=bytearray, larger=bytearray, p="unsigned char *", count=Py_ssize_t,
    at=Py_ssize_t,
)
cpdef Lines lines_of(bytes data)

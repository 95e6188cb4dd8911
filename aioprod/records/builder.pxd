cimport cython

from aioprod.records cimport memory
from aioprod.records.cursor cimport RecordCursor
from aioprod.records.varint cimport put_int, put_varint, varint_size


@cython.final
cdef class RecordBatchBuilder:
    cdef readonly bytearray buffer
    cdef readonly Py_ssize_t position
    cdef readonly long long count, base_timestamp, max_timestamp
    cdef bytearray _sealed
    cdef Py_ssize_t _limit, _sealed_end
    cdef int _codec

    cpdef Py_ssize_t append(self, long long timestamp, bytes key, bytes value, bytes headers=*) except -1

    @cython.locals(
        p="unsigned char *", base="long long", delta="long long", count="long long",
        body=Py_ssize_t, pos=Py_ssize_t, start=Py_ssize_t,
    )
    cdef Py_ssize_t append_from(
        self, long long timestamp,
        const unsigned char *key, Py_ssize_t key_start, Py_ssize_t key_size,
        const unsigned char *value, Py_ssize_t value_start, Py_ssize_t value_size,
        const unsigned char *headers, Py_ssize_t headers_start, Py_ssize_t headers_size,
    ) except -1

    @cython.locals(sealed=bytearray, end=Py_ssize_t, compressed=bytes)
    cpdef compress(self, int codec, level)
    @cython.locals(sealed=bytearray, end=Py_ssize_t)
    cpdef seal(
        self, int codec, level, long long producer_id=*, int producer_epoch=*, int base_sequence=*, bint transactional=*
    )
    @cython.locals(buffer=bytearray)
    cpdef Py_ssize_t append_again(self, RecordCursor cursor) except -1

    cpdef restamp(self, long long producer_id, int producer_epoch, int base_sequence)
    cpdef wire(self, int partition, bint flexible)

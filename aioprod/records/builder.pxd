cimport cython

from aioprod.wire cimport memory
from aioprod.records.cursor cimport RecordCursor


cdef int _NO_CODEC, _NO_COUNT
cdef Py_ssize_t PREFIX, HEADER, _TAIL, SIZE_OVERHEAD
cdef Py_ssize_t ATTRIBUTES, BASE_OFFSET, BASE_SEQUENCE, BASE_TIMESTAMP, BATCH_LENGTH, CRC, LAST_OFFSET_DELTA
cdef Py_ssize_t LEADER_EPOCH, MAGIC, MAX_TIMESTAMP, PRODUCER_EPOCH, PRODUCER_ID, RECORD_COUNT


@cython.final
cdef class RecordBatchBuilder:
    cdef readonly bytearray buffer
    cdef readonly Py_ssize_t position, compressed_size
    cdef readonly long long count, base_timestamp, max_timestamp
    cdef bytearray _sealed
    cdef unsigned char *_bytes
    cdef Py_ssize_t _limit
    cdef int _codec

    cpdef Py_ssize_t append(self, long long timestamp, bytes key, bytes value, bytes headers=*) except -1

    @cython.locals(
        p="unsigned char *", base="long long", delta="long long", count="long long",
        body=Py_ssize_t, pos=Py_ssize_t, start=Py_ssize_t, size=Py_ssize_t,
    )
    cdef Py_ssize_t append_from(
        self, long long timestamp,
        const unsigned char *key, Py_ssize_t key_start, Py_ssize_t key_size,
        const unsigned char *value, Py_ssize_t value_start, Py_ssize_t value_size,
        const unsigned char *headers, Py_ssize_t headers_start, Py_ssize_t headers_size,
    ) except -1

    @cython.locals(
        p="unsigned char *", base="long long", delta="long long", count="long long", headers_size=Py_ssize_t,
        fixed_size=Py_ssize_t, pos=Py_ssize_t, limit=Py_ssize_t, index=Py_ssize_t, stop=Py_ssize_t, value=bytes,
        value_size=Py_ssize_t, at=Py_ssize_t,
    )
    cpdef Py_ssize_t append_values(
        self, long long timestamp, list values, Py_ssize_t start, bytes headers, Py_ssize_t size_max
    ) except -1

    @cython.locals(
        p="unsigned char *", base="long long", delta="long long", count="long long",
        fixed_size=Py_ssize_t, pos=Py_ssize_t, limit=Py_ssize_t, index=Py_ssize_t, at=Py_ssize_t,
        value_start="long long", value_end="long long", value_size=Py_ssize_t,
    )
    cdef Py_ssize_t append_column(
        self, long long timestamp, const unsigned char *data, Py_ssize_t data_size, const unsigned char *places,
        Py_ssize_t width, Py_ssize_t gap, Py_ssize_t start, Py_ssize_t stop, Py_ssize_t size_max
    ) noexcept

    cdef void _advance(self, long long timestamp, long long base, long long count, Py_ssize_t position) noexcept

    @cython.locals(sealed=bytearray, end=Py_ssize_t, compressed=bytes)
    cpdef compress(self, int codec, level)
    @cython.locals(sealed=bytearray, end=Py_ssize_t)
    cpdef seal(
        self, int codec, level, long long producer_id=*, int producer_epoch=*, int base_sequence=*, bint transactional=*
    )
    @cython.locals(buffer=bytearray)
    cpdef Py_ssize_t append_again(self, RecordCursor cursor) except -1

    cpdef copy(self, RecordBatchBuilder other)
    cpdef void trim(self) except *
    cpdef void limit_to(self, Py_ssize_t position) except *
    cpdef restamp(self, long long producer_id, int producer_epoch, int base_sequence)
    @cython.locals(
        sealed=bytearray, size=Py_ssize_t, end=Py_ssize_t, start=Py_ssize_t, rest=Py_ssize_t, pos=Py_ssize_t,
    )
    cpdef memoryview wire(self, int partition, bint flexible)

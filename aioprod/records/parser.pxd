cimport cython

from aioprod.consumed_record cimport consumed_record
from aioprod.records.fields cimport FieldReader
from aioprod.wire cimport memory


@cython.final
cdef class ParsedBatch:
    cdef readonly long long base_offset, base_timestamp, max_timestamp, producer_id
    cdef readonly int partition_leader_epoch, attributes, last_offset_delta, producer_epoch, base_sequence, count
    cdef readonly Py_ssize_t size, decompressed_max
    cdef readonly object payload

    @cython.locals(batch=ParsedBatch)
    cpdef ParsedBatch placed(self, long long base_offset)
    @cython.locals(batch=ParsedBatch)
    cpdef ParsedBatch unpacked(self, data)
    @cython.locals(batch=ParsedBatch)
    cdef ParsedBatch _copy(self)


cdef class RecordWalk(FieldReader):
    cdef readonly long long offset, timestamp
    cdef Py_ssize_t _limit, _key_start, _key_size, _value_start, _value_size
    cdef long long _base_offset, _base_timestamp, _max_timestamp, _delta_min, _delta_max
    cdef long long _last_offset_delta, _previous_delta, _offset_delta, _timestamp_delta
    cdef bint _is_log_append_time

    @cython.locals(base="long long")
    cdef int _go_to_start(self, ParsedBatch batch) except -1
    @cython.locals(size="long long")
    cdef int begin(self) except -1
    cdef int complete(self) except -1
    @cython.locals(
        data="const unsigned char *", number="long long", time="long long", delta="long long", key="long long",
        value="long long", at=Py_ssize_t, end=Py_ssize_t, key_start=Py_ssize_t, value_start=Py_ssize_t,
    )
    cdef bint _step_quickly(self) noexcept
    cpdef finish(self)


@cython.final
cdef class RecordReader(RecordWalk):
    cdef Py_ssize_t _left

    @cython.locals(
        run=Py_ssize_t, stop=Py_ssize_t, key=bytes, value=bytes, headers=tuple, key_size=Py_ssize_t, value_size=Py_ssize_t,
    )
    cpdef bint consume(self, list found, str topic, int partition, long long start, long long end) except -1
    @cython.locals(key=bytes, value=bytes, headers=tuple)
    cpdef record(self)


@cython.locals(batch=ParsedBatch, base_offset="long long", delta="long long", count="long long")
cdef ParsedBatch _parse_batch(view, bint verify_crc, Py_ssize_t decompressed_max)

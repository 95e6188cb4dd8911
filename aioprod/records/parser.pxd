cimport cython

from aioprod.records.fields cimport FieldReader
from aioprod.wire cimport memory


cdef class RecordWalk(FieldReader):
    cdef readonly long long offset, timestamp
    cdef Py_ssize_t _limit
    cdef long long _base_offset, _base_timestamp, _max_timestamp, _delta_min, _delta_max
    cdef long long _last_offset_delta, _previous_delta, _offset_delta, _timestamp_delta
    cdef bint _is_log_append_time

    @cython.locals(size="long long")
    cdef int begin(self) except -1
    cdef int complete(self) except -1
    cpdef finish(self)


@cython.final
cdef class RecordReader(RecordWalk):
    cdef Py_ssize_t _left

    @cython.locals(run=Py_ssize_t, stop=Py_ssize_t, key=bytes, value=bytes, headers=tuple)
    cpdef bint consume(self, list found, str topic, object partition, long long start, long long end) except -1
    @cython.locals(key=bytes, value=bytes, headers=tuple)
    cpdef record(self)

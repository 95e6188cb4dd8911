cimport cython

from aioprod.records.fields cimport FieldReader
from aioprod.wire cimport memory


@cython.final
cdef class RecordReader(FieldReader):
    cdef Py_ssize_t _limit
    cdef long long _base_offset, _base_timestamp, _delta_min, _delta_max, _last_offset_delta, _previous_delta
    cdef object _log_append_time

    @cython.locals(
        size="long long", timestamp_delta="long long", offset_delta="long long", offset="long long", key=bytes,
        value=bytes, headers=tuple,
    )
    cpdef record(self)
    cpdef finish(self)

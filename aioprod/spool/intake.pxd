cimport cython

from aioprod.producer.clock cimport Clock
from aioprod.spool.entries cimport encode_entry


cdef Py_ssize_t _LOOSE


cdef class Intake:
    cdef readonly object preparation
    cdef object _config
    cdef Py_ssize_t _size_max
    cdef dict _topics
    cdef bint _is_plain
    cdef readonly unsigned int seed
    cdef Clock _clock

    @cython.locals(encoded=bytes, index=int)
    cpdef bytearray encode(self, topic, value, key, partition, headers, timestamp)
    @cython.locals(name=bytes, size=Py_ssize_t, at_ms="long long")
    cpdef bytearray encode_prepared(
        self, str topic, bytes key, bytes value, bytes headers, int partition, timestamp
    )

cimport cython
from libc.stdint cimport int64_t

from aioprod.producer.batching.batch cimport Batch
from aioprod.producer.batching.partition cimport Topic
from aioprod.producer.batching.produce_request cimport topic_key
from aioprod.wire cimport memory


cdef int FIRST_WITH_LOG_START, FIRST_WITH_RECORD_ERRORS, TOPIC_ID_SIZE, VARINT_BITS_MAX
cdef long long UNKNOWN_OFFSET, UNREAD


@cython.final
cdef class PlainAnswer:
    cdef readonly list base_offsets, append_times
    cdef readonly int throttle_time_ms


@cython.final
cdef class AnswerCursor:
    cdef bytes data
    cdef Py_ssize_t end, position
    cdef int version
    cdef bint flexible

    @cython.locals(at=Py_ssize_t, end=Py_ssize_t, i=Py_ssize_t, p="const unsigned char *", value=int64_t)
    cdef int64_t number(self, Py_ssize_t size) except? -2
    @cython.locals(value=Py_ssize_t, shift=int, byte=int)
    cdef Py_ssize_t count(self) except? -2
    @cython.locals(size=Py_ssize_t, start=Py_ssize_t)
    cdef bytes topic_key(self)
    cdef bint has_no_tags(self) except -1
    cdef bint says_nothing_else(self) except -1


cpdef PlainAnswer read_plain(int version, body, list batches)

@cython.locals(
    count=Py_ssize_t, answer=PlainAnswer, keys=list, place=Py_ssize_t, read=Py_ssize_t, key=bytes, index=int,
    batch=Batch, places=dict,
    partitions=Py_ssize_t, offset=int64_t,
)
cdef PlainAnswer _read_plain(AnswerCursor cursor, list batches)

@cython.locals(keys=list, key=bytes, topic=Topic, batch=Batch)
cdef list _topic_keys(int version, list batches)

cdef dict _places(list keys, list batches)

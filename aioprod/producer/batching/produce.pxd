cimport cython
from libc.stdint cimport int64_t

from aioprod.producer.batching.batch cimport Batch
from aioprod.producer.batching.partition cimport Topic
from aioprod.records.builder cimport RecordBatchBuilder
from aioprod.wire cimport memory


cdef int _FIRST_WITH_LOG_START, _FIRST_WITH_RECORD_ERRORS, _TOPIC_ID_SIZE, _VARINT_BITS_MAX
cdef long long _UNKNOWN_OFFSET, _UNREAD


@cython.final
cdef class ProduceEncoder:
    cdef int _acks, _timeout_ms, _heads_version
    cdef object _transactional_id
    cdef dict _heads

    @cython.locals(flexible=bint, batch=Batch, builder=RecordBatchBuilder, head=bytes, size=Py_ssize_t)
    cpdef encode(self, int version, list batches)
    @cython.locals(key=bytes, head=bytes, made=bytearray)
    cdef bytes _head_of_one(self, int version, Batch batch, bint flexible)
    @cython.locals(head=bytearray)
    cdef bytearray _begin(self, Py_ssize_t topics, bint flexible)
    @cython.locals(
        size=Py_ssize_t, head=bytearray, parts=list, groups=list, group=list, batch=Batch, builder=RecordBatchBuilder
    )
    cdef _encode(self, int version, list batches, bint flexible)


@cython.locals(topic=Topic, batch=Batch, groups=dict)
cdef list _by_topic(list batches)

cdef bytes _topic_key(int version, Batch batch)

cdef _put_topic(bytearray head, int version, bytes key, bint flexible)

cdef _put_transactional_id(bytearray head, transactional_id, bint flexible)

cdef _put_count(bytearray head, Py_ssize_t count, bint flexible)


@cython.final
cdef class PlainAnswer:
    cdef readonly list base_offsets, append_times
    cdef readonly int throttle_time_ms
    cdef bytes _data, _no_tags, _nothing_else
    cdef Py_ssize_t _at, _end
    cdef int _version
    cdef bint _flexible

    @cython.locals(
        version=int, count=Py_ssize_t, place=Py_ssize_t, read=Py_ssize_t, key=bytes, index=int, batch=Batch,
        places=dict, partitions=Py_ssize_t, offset=int64_t,
    )
    cdef bint read(self, list batches) except -1
    cdef bint _passes(self, bytes expected) except -1
    @cython.locals(at=Py_ssize_t, end=Py_ssize_t, i=Py_ssize_t, p="const unsigned char *", value=int64_t)
    cdef int64_t _number(self, Py_ssize_t size) except? -2
    @cython.locals(value=Py_ssize_t, shift=int, byte=int)
    cdef Py_ssize_t _count(self) except? -2
    @cython.locals(size=Py_ssize_t, at=Py_ssize_t)
    cdef bytes _key(self)


@cython.locals(answer=PlainAnswer)
cpdef PlainAnswer read_plain(int version, body, list batches)

cdef dict _places(int version, list batches)

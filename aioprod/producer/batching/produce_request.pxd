cimport cython

from aioprod.producer.batching.batch cimport Batch
from aioprod.producer.batching.partition cimport Topic
from aioprod.records.builder cimport RecordBatchBuilder


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

cpdef bytes topic_key(int version, Batch batch)

cdef _put_topic(bytearray head, int version, bytes key, bint flexible)

cdef _put_transactional_id(bytearray head, transactional_id, bint flexible)

cdef _put_count(bytearray head, Py_ssize_t count, bint flexible)

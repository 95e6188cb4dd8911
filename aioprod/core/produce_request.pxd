cimport cython

from aioprod.core.batch cimport Batch
from aioprod.core.partition cimport Topic
from aioprod.records.builder cimport RecordBatchBuilder


@cython.locals(
    flexible=bint, size=Py_ssize_t, head=bytearray, parts=list, groups=list, group=list, batch=Batch,
    builder=RecordBatchBuilder,
)
cpdef encode_produce(int version, int acks, int timeout_ms, list batches, transactional_id=*)

@cython.locals(topic=Topic, batch=Batch, groups=dict)
cdef list _by_topic(list batches)

cpdef bytes topic_key(int version, Batch batch)

@cython.locals(key=bytes)
cdef _put_topic(bytearray head, int version, Batch batch, bint flexible)

cdef _put_transactional_id(bytearray head, transactional_id, bint flexible)

cdef _put_count(bytearray head, Py_ssize_t count, bint flexible)

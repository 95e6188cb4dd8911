cimport cython

from aioprod.producer.batching.batch cimport Batch, ParkedRecord
from aioprod.producer.batching.buffer_memory cimport BufferPool, MemoryBudget
from aioprod.producer.batching.growth cimport BatchGrowth
from aioprod.producer.batching.partition_choice cimport PartitionChoice
from aioprod.producer.batching.partition cimport BrokerQueue, Partition, Topic
from aioprod.producer.batching.sequences cimport Sequences
from aioprod.records.builder cimport RecordBatchBuilder
from aioprod.records.bounds cimport record_size_bound


cdef Py_ssize_t LOOSE_OVERHEAD, SMALLEST_RECORD
cdef double _OPEN_SHARE, _TOUCH_S


@cython.final
cdef class Accumulator:
    cdef public object settings, incomplete
    cdef readonly object compress
    cdef readonly Sequences sequences
    cdef readonly object metadata
    cdef readonly MemoryBudget budget
    cdef readonly BufferPool pool
    cdef readonly PartitionChoice choice
    cdef readonly BatchGrowth growth
    cdef readonly dict topics, parked_topics, queues
    cdef readonly list delayed
    cdef public long long serial
    cdef readonly bint fitting_is_enough
    cdef readonly double linger_s
    cdef double _newest_deadline, _open_s
    cdef bint _is_ordered
    cdef Py_ssize_t _bound_max
    cdef readonly object due, stuck
    cdef object _events, _random
    cdef str _last_name
    cdef Topic _last_topic

    @cython.locals(topic=Topic, bound=Py_ssize_t, batch=Batch)
    cpdef append(
        self, str name, bytes key, bytes value, bytes headers, int partition, long long timestamp, waiter, double now,
        long long granted=*,
    )
    @cython.locals(topic=Topic)
    cpdef Topic topic(self, name, double now)
    cpdef void check_size(self, Topic topic, Py_ssize_t bound) except *
    @cython.locals(choice=PartitionChoice, is_sticky=bint, index=int, chosen=Partition, batch=Batch, size=Py_ssize_t)
    cpdef Batch put(
        self, Topic topic, bytes key, bytes value, bytes headers, int partition, long long timestamp, double now,
        Py_ssize_t bound,
    )
    @cython.locals(chosen=Partition, batch=Batch, builder=RecordBatchBuilder, size=Py_ssize_t)
    cdef Batch place(
        self, Topic topic, int index,
        const unsigned char *key, Py_ssize_t key_start, Py_ssize_t key_size,
        const unsigned char *value, Py_ssize_t value_start, Py_ssize_t value_size,
        const unsigned char *headers, Py_ssize_t headers_start, Py_ssize_t headers_size,
        long long timestamp, double now, Py_ssize_t bound,
    )
    @cython.locals(batch=Batch, size=Py_ssize_t)
    cpdef put_batch(self, Partition partition, RecordBatchBuilder records, waiter, double now)
    # int, for nothing: after a void function Cython checks for an error.
    cpdef int count(self, Batch batch, Py_ssize_t records, Py_ssize_t size, double now) except -1
    @cython.locals(builder=RecordBatchBuilder, batch=Batch, topic=Topic)
    cdef Batch _open(self, Partition partition, Py_ssize_t bound, double now)
    @cython.locals(partition=Partition, was_full=bint, units=int)
    cpdef void full(self, Batch batch, Py_ssize_t bound, double now) except *
    cpdef void end_linger(self, Partition partition, double now) except *
    cpdef void close_batch(self, Batch batch, double now) except *
    cdef void _close(self, Batch batch, Py_ssize_t size, double now) except *
    @cython.locals(newest=double)
    cpdef void track(self, Batch batch) except *

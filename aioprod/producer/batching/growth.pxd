cimport cython

from aioprod.producer.batching.batch cimport Batch
from aioprod.producer.batching.buffer_memory cimport BufferPool
from aioprod.producer.batching.partition cimport Partition, Topic
from aioprod.records.builder cimport RecordBatchBuilder
from aioprod.wire cimport memory


cdef Py_ssize_t HEADER, PREFIX, _TAIL, _UNLIMITED
cdef Py_ssize_t _ROOM_DECAY, _UNUSED


@cython.final
cdef class BatchGrowth:
    cdef BufferPool _pool
    cdef Py_ssize_t _batch_size, _size_max
    cdef bint _compresses
    cdef Py_ssize_t _open_room, _slack
    cdef Py_ssize_t _full_position
    cdef double _limit_s

    @cython.locals(size=Py_ssize_t)
    cpdef bytearray buffer(self, Partition partition, Py_ssize_t bound)
    @cython.locals(size=Py_ssize_t)
    cdef Py_ssize_t _size_for(self, Py_ssize_t needed) except -1
    @cython.locals(partition=Partition)
    cpdef void closed(self, Batch batch) except *
    cpdef int units_of(self, Py_ssize_t size) except -1
    @cython.locals(topic=Topic, end=Py_ssize_t, size=Py_ssize_t)
    cpdef void begin(self, Batch batch, Py_ssize_t bound, double now) except *
    cpdef void has_first(self, Batch batch) except *
    @cython.locals(builder=RecordBatchBuilder, buffer=bytearray)
    cpdef bint fill_buffer(self, Batch batch, Py_ssize_t bound) except -1
    cdef Py_ssize_t _limit_of(self, Topic topic, double now) except -1
    @cython.locals(builder=RecordBatchBuilder, partition=Partition, units=int, added=int, full_position=Py_ssize_t, size_max=Py_ssize_t, size=Py_ssize_t)
    cpdef int extend(self, Batch batch, Py_ssize_t bound, double now) except -2

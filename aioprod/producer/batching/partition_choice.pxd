cimport cython

from aioprod.producer.batching.batch cimport Batch
from aioprod.producer.batching.partition cimport Partition, Topic
from aioprod.routing.hashes cimport murmur2_of


@cython.final
cdef class PartitionChoice:
    cdef object _partitioner, _on_new_batch, _metadata, _full, _raised
    cdef readonly bint is_built_in, keyed_is_sticky

    cpdef int choose(self, Topic topic, bytes key, bytes value, int partition, Py_ssize_t bound, double now) except -1
    cpdef int explicit(self, Topic topic, long long partition) except -1
    cdef int by_key(self, Topic topic, const unsigned char *key, Py_ssize_t start, Py_ssize_t size) noexcept
    @cython.locals(chosen=int, batch=Batch, target=Partition)
    cdef int _custom(self, Topic topic, bytes key, bytes value, Py_ssize_t bound, double now) except -1
    cdef int _call(self, Topic topic, bytes key, bytes value) except -1

cimport cython


# Typed fields keep it out of the garbage collector, and dead ones are kept for the next records.
@cython.final
@cython.freelist(4096)
cdef class RecordMetadata:
    cdef readonly str topic
    cdef readonly int partition, serialized_key_size, serialized_value_size
    cdef readonly long long offset, timestamp

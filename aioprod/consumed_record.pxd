cimport cython


# Dead ones are kept for the next records: as many as a list of them usually has.
@cython.final
@cython.freelist(1024)
cdef class ConsumedRecord:
    cdef readonly str topic
    cdef readonly int partition
    cdef readonly long long offset, timestamp
    cdef readonly object key, value, headers


@cython.locals(record=ConsumedRecord)
cpdef ConsumedRecord consumed_record(
    str topic, int partition, long long offset, key, value, headers, long long timestamp
)

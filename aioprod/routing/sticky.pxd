cdef class StickyChoice:
    cdef readonly int partition
    cdef object _random, _candidates, _available, _led, _table
    cdef bint _adaptive
    cdef long long _batch_size, _bytes, _longest, _shortest, _choices

    cpdef batch_closed(self, long long size_bytes, queues, excluded=*)
    cpdef switch(self, queues=*, excluded=*)

from cpython cimport time


cdef class Clock:
    cdef long long _difference_ns, _agreed_until_ns

    cpdef long long now_ns(self)
    cpdef long long timestamp_ms(self, long long now_ns)

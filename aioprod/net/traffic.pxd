cimport cython


@cython.final
cdef class Traffic:
    cdef public long long bytes_in, bytes_out, requests, responses

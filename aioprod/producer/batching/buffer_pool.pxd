from aioprod.wire cimport memory


cdef class BufferPool:
    cdef readonly Py_ssize_t full_size, free_max
    cdef readonly list free

    cpdef bytearray acquire(self, Py_ssize_t need)
    cpdef bytearray larger(self, bytearray buffer, Py_ssize_t need)
    cpdef void release(self, bytearray buffer) except *
    cpdef Py_ssize_t size_class(self, Py_ssize_t need) except -1

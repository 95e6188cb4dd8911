# The compiled form of memory.py.

from libc.string cimport memcpy


cdef inline void copy(
    unsigned char *target, Py_ssize_t at, const unsigned char *source, Py_ssize_t start, Py_ssize_t size
) noexcept nogil:
    memcpy(target + at, source + start, size)

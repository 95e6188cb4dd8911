# The compiled form of memory.py.

from cpython.bytearray cimport PyByteArray_AS_STRING, PyByteArray_FromStringAndSize
from cpython.buffer cimport PyBUF_READ
from cpython.memoryview cimport PyMemoryView_FromMemory
from libc.string cimport memcpy, memset


cdef inline bytearray room(Py_ssize_t size):
    return PyByteArray_FromStringAndSize(NULL, size)


cdef inline void copy(
    unsigned char *target, Py_ssize_t at, const unsigned char *source, Py_ssize_t start, Py_ssize_t size
) noexcept nogil:
    memcpy(target + at, source + start, size)


cdef inline span(bytearray source, Py_ssize_t start, Py_ssize_t end):
    return PyMemoryView_FromMemory(PyByteArray_AS_STRING(source) + start, end - start, PyBUF_READ)


cdef inline void fill(unsigned char *target, Py_ssize_t size, int byte) noexcept nogil:
    memset(target, byte, size)


cdef inline void clear_bit(unsigned char *target, Py_ssize_t index) noexcept nogil:
    target[index >> 3] &= ~(1 << (index & 7))


cdef inline void put_int32(unsigned char *target, Py_ssize_t index, int value) noexcept nogil:
    memcpy(target + 4 * index, &value, 4)


cdef inline void put_int64(unsigned char *target, Py_ssize_t index, long long value) noexcept nogil:
    memcpy(target + 8 * index, &value, 8)

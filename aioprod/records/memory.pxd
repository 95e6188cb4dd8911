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


cdef inline long long short_varint(const unsigned char *data, Py_ssize_t at, Py_ssize_t end) noexcept nogil:
    cdef long long zigzag, count
    if at < end and data[at] < 0x80:
        zigzag = data[at]
        count = 1
    elif at + 1 < end and data[at + 1] < 0x80:
        zigzag = data[at] & 0x7F | data[at + 1] << 7
        count = 2
    elif at + 2 < end and data[at + 2] < 0x80:
        zigzag = data[at] & 0x7F | (data[at + 1] & 0x7F) << 7 | data[at + 2] << 14
        count = 3
    else:
        return 0
    return ((zigzag >> 1) ^ -(zigzag & 1)) * 4 + count

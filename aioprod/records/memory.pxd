# The compiled form of memory.py.

from cpython.bytearray cimport PyByteArray_AS_STRING, PyByteArray_FromStringAndSize
from cpython.buffer cimport PyBUF_READ
from cpython.memoryview cimport PyMemoryView_FromMemory
from libc.string cimport memchr, memcpy, memset


cdef inline bytearray room(Py_ssize_t size):
    return PyByteArray_FromStringAndSize(NULL, size)


cdef inline void copy(
    unsigned char *target, Py_ssize_t at, const unsigned char *source, Py_ssize_t start, Py_ssize_t size
) noexcept nogil:
    memcpy(target + at, source + start, size)


cdef inline void copy_short(
    unsigned char *target, Py_ssize_t at, const unsigned char *source, Py_ssize_t start, Py_ssize_t size
) noexcept nogil:
    # A copy of a constant size is a load and a store, and no call; two of them may overlap.
    target += at
    source += start
    if 8 <= size <= 16:
        memcpy(target, source, 8)
        memcpy(target + size - 8, source + size - 8, 8)
    elif 4 <= size < 8:
        memcpy(target, source, 4)
        memcpy(target + size - 4, source + size - 4, 4)
    else:
        memcpy(target, source, size)


cdef inline span(bytearray source, Py_ssize_t start, Py_ssize_t end):
    return PyMemoryView_FromMemory(PyByteArray_AS_STRING(source) + start, end - start, PyBUF_READ)


cdef inline void fill(unsigned char *target, Py_ssize_t size, int byte) noexcept nogil:
    memset(target, byte, size)


cdef inline Py_ssize_t find(const unsigned char *source, int byte, Py_ssize_t start, Py_ssize_t end) noexcept nogil:
    cdef const void *found = memchr(source + start, byte, end - start)
    return end if found is NULL else <const unsigned char *> found - source


cdef inline void clear_bit(unsigned char *target, Py_ssize_t index) noexcept nogil:
    target[index >> 3] &= ~(1 << (index & 7))


cdef inline long long int_at(const unsigned char *data, Py_ssize_t width, Py_ssize_t index) noexcept nogil:
    cdef long long eight = 0
    cdef int four = 0
    if width == 4:
        memcpy(&four, data + 4 * index, 4)
        return four
    memcpy(&eight, data + 8 * index, 8)
    return eight


cdef inline void put_int32(unsigned char *target, Py_ssize_t index, int value) noexcept nogil:
    memcpy(target + 4 * index, &value, 4)


cdef inline void put_int64(unsigned char *target, Py_ssize_t index, long long value) noexcept nogil:
    memcpy(target + 8 * index, &value, 8)


# Most numbers of a record take one byte or two: these stand before the loops for all others.

cdef inline Py_ssize_t varint_size(long long value) noexcept nogil:
    cdef unsigned long long zigzag = <unsigned long long> value << 1 ^ <unsigned long long> (value >> 63)
    cdef Py_ssize_t size = 3
    if zigzag < 0x80:
        return 1
    if zigzag < 0x4000:
        return 2
    while zigzag >= 0x200000:
        zigzag >>= 7
        size += 1
    return size


cdef inline Py_ssize_t put_varint(unsigned char *target, Py_ssize_t at, long long value) noexcept nogil:
    cdef unsigned long long zigzag = <unsigned long long> value << 1 ^ <unsigned long long> (value >> 63)
    if zigzag < 0x80:
        target[at] = <unsigned char> zigzag
        return at + 1
    while zigzag >= 0x4000:
        target[at] = <unsigned char> (zigzag & 0x7F | 0x80)
        zigzag >>= 7
        at += 1
    target[at] = <unsigned char> (zigzag & 0x7F | 0x80)
    target[at + 1] = <unsigned char> (zigzag >> 7)
    return at + 2


cdef inline Py_ssize_t put_head(
    unsigned char *target, Py_ssize_t at, Py_ssize_t limit, long long count, long long delta, Py_ssize_t fixed_size,
    Py_ssize_t value_size
) noexcept nogil:
    cdef Py_ssize_t body = fixed_size + varint_size(count) + varint_size(value_size) + value_size
    if at + varint_size(body) + body > limit:
        return 0
    at = put_varint(target, at, body)
    target[at] = 0
    at = put_varint(target, at + 1, delta)
    at = put_varint(target, at, count)
    target[at] = 1
    return put_varint(target, at + 1, value_size)

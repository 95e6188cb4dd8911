# The compiled form of memory.py.

from libc.string cimport memcpy


cdef enum:
    OFFSETS = 0
    FIXED = 1
    VIEWS = 2
    INDEXED = 3
    NULLS = 4
    VIEW_SIZE = 16
    INLINE_MAX = 12


cdef inline const unsigned char *at(Py_ssize_t address, Py_ssize_t size) noexcept nogil:
    return <const unsigned char *> <void *> address


cdef inline long long number(const unsigned char *data, Py_ssize_t width, Py_ssize_t index) noexcept nogil:
    # Copies of a constant size become one load each, and don't mind where the array begins.
    cdef long long eight = 0
    cdef int four = 0
    cdef short two = 0
    if width == 4:
        memcpy(&four, data + 4 * index, 4)
        return four
    if width == 8:
        memcpy(&eight, data + 8 * index, 8)
        return eight
    if width == 2:
        memcpy(&two, data + 2 * index, 2)
        return two
    return (<const signed char *> data)[index]

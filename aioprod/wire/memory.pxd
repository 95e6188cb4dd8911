# The compiled form of memory.py.

from cpython.bytearray cimport PyByteArray_AS_STRING, PyByteArray_FromStringAndSize, PyByteArray_Resize
from cpython.buffer cimport PyBUF_READ
from cpython.bytes cimport PyBytes_FromStringAndSize
from cpython.list cimport PyList_GET_ITEM
from cpython.memoryview cimport PyMemoryView_FromMemory, PyMemoryView_GET_BUFFER
from cpython.object cimport PyObject, PyObject_GenericSetAttr, PyTypeObject
from cpython.unicode cimport PyUnicode_DecodeUTF8
from libc.string cimport memchr, memcpy, memset

cdef extern from "Python.h":
    bint PyBuffer_IsContiguous(const Py_buffer *view, char order)
    Py_ssize_t Py_REFCNT(PyObject *held) noexcept
    object PyType_GenericAlloc(PyTypeObject *kind, Py_ssize_t items)


cdef inline const unsigned char *first_byte(memoryview view) except? NULL:
    if not PyBuffer_IsContiguous(PyMemoryView_GET_BUFFER(view), b"C"):
        raise BufferError("The bytes are not contiguous.")
    return <const unsigned char *> PyMemoryView_GET_BUFFER(view).buf


cdef inline bytearray grown(bytearray data, Py_ssize_t size):
    cdef Py_ssize_t old = len(data)
    cdef bytearray other
    try:
        PyByteArray_Resize(data, size)
    except BufferError:
        other = PyByteArray_FromStringAndSize(NULL, size)
        other[:old] = data
        return other
    return data


cdef inline bytearray shortened(bytearray data, Py_ssize_t size):
    PyByteArray_Resize(data, size)
    return data


cdef inline bint is_unshared(list buffers, Py_ssize_t index):
    return Py_REFCNT(PyList_GET_ITEM(buffers, index)) == 1


cdef inline long long number(const unsigned char *data, Py_ssize_t position, Py_ssize_t size) noexcept nogil:
    cdef unsigned long long value = 0 if data[position] < 0x80 else -1
    cdef Py_ssize_t at
    for at in range(position, position + size):
        value = value << 8 | data[at]
    return <long long> value


cdef inline bint is_ascii(const unsigned char *data, Py_ssize_t position, Py_ssize_t size) noexcept nogil:
    cdef unsigned char all_bits = 0
    cdef Py_ssize_t at
    for at in range(position, position + size):
        all_bits |= data[at]
    return all_bits < 0x80


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


cdef inline str text(const unsigned char *data, Py_ssize_t position, Py_ssize_t size):
    return PyUnicode_DecodeUTF8(<const char *> data + position, size, NULL)


cdef inline bytes copied(const unsigned char *data, Py_ssize_t position, Py_ssize_t size):
    return PyBytes_FromStringAndSize(<const char *> data + position, size)


# Not `type kind`: that rejects classes of another metaclass, which structs are.
cdef inline instance(object kind):
    return PyType_GenericAlloc(<PyTypeObject *> kind, 0)


cdef inline int set_field(object instance, object name, object value) except -1:
    return PyObject_GenericSetAttr(instance, name, value)


cdef inline tuple_as(type kind, tuple values):
    cdef tuple arguments = (values,)
    return (<PyTypeObject *> tuple).tp_new(kind, <PyObject *> arguments, NULL)


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


# The compiler makes one store of these.

cdef inline void put_int16_be(unsigned char *target, Py_ssize_t at, int value) noexcept nogil:
    target[at] = value >> 8 & 0xFF
    target[at + 1] = value & 0xFF


cdef inline void put_uint32_be(unsigned char *target, Py_ssize_t at, unsigned int value) noexcept nogil:
    target[at] = value >> 24 & 0xFF
    target[at + 1] = value >> 16 & 0xFF
    target[at + 2] = value >> 8 & 0xFF
    target[at + 3] = value & 0xFF


cdef inline void put_int32_be(unsigned char *target, Py_ssize_t at, int value) noexcept nogil:
    put_uint32_be(target, at, <unsigned int> value)


cdef inline void put_int64_be(unsigned char *target, Py_ssize_t at, long long value) noexcept nogil:
    put_uint32_be(target, at, <unsigned int> (value >> 32))
    put_uint32_be(target, at + 4, <unsigned int> value)


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

# The compiled form of memory.py.

from cpython.bytearray cimport PyByteArray_FromStringAndSize, PyByteArray_Resize
from cpython.bytes cimport PyBytes_FromStringAndSize
from cpython.list cimport PyList_GET_ITEM
from cpython.memoryview cimport PyMemoryView_GET_BUFFER
from cpython.object cimport PyObject, PyObject_GenericSetAttr, PyTypeObject
from cpython.unicode cimport PyUnicode_DecodeUTF8

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

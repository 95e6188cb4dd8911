# The compiled form of native.py.

from cpython.object cimport PyObject_Call
from cpython.pythread cimport PyThread_get_thread_ident


cdef inline unsigned long thread_id() noexcept:
    return PyThread_get_thread_ident()


cdef inline made(kind, dict arguments):
    return PyObject_Call(kind, (), arguments)

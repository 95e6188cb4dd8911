# The compiled form of native.py.

from cpython.object cimport PyObject, PyObject_Call
from cpython.pythread cimport PyThread_get_thread_ident

cdef extern from "Python.h":
    void PyObject_GC_UnTrack(PyObject *held)


cdef inline unsigned long thread_id() noexcept:
    return PyThread_get_thread_ident()


cdef inline made(kind, dict arguments):
    return PyObject_Call(kind, (), arguments)


cdef inline void untrack(held) noexcept:
    PyObject_GC_UnTrack(<PyObject *>held)

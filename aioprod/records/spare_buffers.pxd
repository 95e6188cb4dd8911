cimport cython

from aioprod.wire cimport memory


cdef int _KEPT


@cython.final
cdef class SpareBuffers:
    cdef list _given
    cdef Py_ssize_t _size_max

    @cython.locals(index=Py_ssize_t)
    cpdef bytearray longer(self, bytearray buffer, Py_ssize_t size)
    cpdef void gave(self, bytearray buffer) except *

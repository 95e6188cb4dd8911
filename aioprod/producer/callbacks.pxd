cimport cython


@cython.final
cdef class DeliveryCallbacks:
    cdef readonly dict _known
    cdef object _last
    cdef Py_ssize_t _before

    @cython.locals(before=Py_ssize_t)
    cpdef check(self, given)

cimport cython


cdef Py_ssize_t _GROUP_MAX, _ENOUGH


@cython.final
cdef class Forming:
    cdef readonly list parts, waiters
    cdef readonly Py_ssize_t records, size


@cython.final
cdef class Gathering:
    cdef readonly object groups
    cdef readonly long long max_bytes, pending_max
    cdef public long long file_bytes, pending_bytes, added
    cdef public bint is_open

    @cython.locals(pending="long long")
    cpdef bint has_room(self, Py_ssize_t size) except -1
    cpdef int add(self, data, Py_ssize_t records, waiter, bint is_urgent) except -1
    @cython.locals(group=Forming, size=Py_ssize_t)
    cpdef int add_in_turn(self, data, Py_ssize_t records, waiter, bint is_urgent) except -1

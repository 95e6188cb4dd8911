cimport cython


@cython.locals(zigzag="unsigned long long", size=Py_ssize_t)
cpdef Py_ssize_t varint_size(long long value) noexcept nogil

@cython.locals(zigzag="unsigned long long")
cpdef Py_ssize_t put_varint(unsigned char *buf, Py_ssize_t pos, long long value) noexcept nogil

@cython.locals(shift=int)
cpdef void put_int(unsigned char *buf, Py_ssize_t pos, long long value, Py_ssize_t size) noexcept nogil

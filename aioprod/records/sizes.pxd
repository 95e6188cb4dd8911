cimport cython

from aioprod.records.varint cimport varint_size


cpdef Py_ssize_t record_size_bound(bytes key, bytes value, bytes headers=*) except -1

@cython.locals(size=Py_ssize_t)
cpdef Py_ssize_t size_bound(Py_ssize_t key_size, Py_ssize_t value_size, Py_ssize_t headers_size) noexcept

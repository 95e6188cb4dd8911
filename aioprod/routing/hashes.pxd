cimport cython


@cython.locals(
    mask="unsigned int", multiplier="unsigned int", seed="unsigned int", hashed="unsigned int", word="unsigned int",
    rest=Py_ssize_t, whole=Py_ssize_t, at=Py_ssize_t,
)
cpdef unsigned int murmur2_of(const unsigned char *data, Py_ssize_t start, Py_ssize_t size) noexcept nogil

@cython.locals(mask="unsigned int", prime="unsigned int", hashed="unsigned int", at=Py_ssize_t)
cpdef unsigned int fnv1a_of(const unsigned char *data, Py_ssize_t start, Py_ssize_t size) noexcept nogil

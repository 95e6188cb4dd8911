cimport cython


cdef int _MURMUR2, _CRC32, _FNV1A, _MURMUR3
cdef unsigned int _CRC32_TABLES[1024]


@cython.locals(hashed="unsigned int")
cpdef unsigned int partition_of(
    int kind, const unsigned char *data, Py_ssize_t start, Py_ssize_t size, unsigned int count
) noexcept nogil

@cython.locals(mask="unsigned int", positive="unsigned int")
cdef unsigned int folded(int kind, unsigned int hashed) noexcept nogil

@cython.locals(
    mask="unsigned int", multiplier="unsigned int", seed="unsigned int", hashed="unsigned int", word="unsigned int",
    rest=Py_ssize_t, whole=Py_ssize_t, at=Py_ssize_t,
)
cpdef unsigned int murmur2_of(const unsigned char *data, Py_ssize_t start, Py_ssize_t size) noexcept nogil

@cython.locals(mask="unsigned int", prime="unsigned int", hashed="unsigned int", at=Py_ssize_t)
cpdef unsigned int fnv1a_of(const unsigned char *data, Py_ssize_t start, Py_ssize_t size) noexcept nogil

@cython.locals(mask="unsigned int", hashed="unsigned int", word="unsigned int", whole=Py_ssize_t, at=Py_ssize_t)
cpdef unsigned int crc32_of(const unsigned char *data, Py_ssize_t start, Py_ssize_t size) noexcept nogil

@cython.locals(
    mask="unsigned int", before="unsigned int", after="unsigned int", added="unsigned int", first="unsigned int",
    second="unsigned int", hashed="unsigned int", word="unsigned int", rest=Py_ssize_t, whole=Py_ssize_t, at=Py_ssize_t,
)
cpdef unsigned int murmur3_of(const unsigned char *data, Py_ssize_t start, Py_ssize_t size) noexcept nogil

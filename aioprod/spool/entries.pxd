cimport cython

from aioprod.wire cimport memory


cdef Py_ssize_t _FRAME, _FIXED, _OVERHEAD
cdef int _NO_VALUE

@cython.locals(key_size=Py_ssize_t, at=Py_ssize_t, size=Py_ssize_t, entry=bytearray, out="unsigned char *")
cpdef bytearray encode_entry(
    bytes topic, bytes key, bytes value, bytes headers, int partition, long long timestamp, unsigned int seed
)

cdef unsigned int _crc(const unsigned char *source, Py_ssize_t at) noexcept


@cython.final
cdef class EntryReader:
    cdef unsigned int _seed
    cdef dict _topics
    cdef bytes _last
    cdef str _topic

    @cython.locals(
        source="const unsigned char *", topics=list, partitions=list, keys=list, values=list, headers=list,
        timestamps=list, index=Py_ssize_t, length="long long", stop=Py_ssize_t, flags=int, partition="long long",
        topic_size="long long", key_size="long long", headers_size="long long", is_whole=bint,
    )
    cpdef Py_ssize_t read(self, bytes data, Py_ssize_t at, Py_ssize_t end, Py_ssize_t count, rows) except -1
    cpdef read_all(self, bytes data, Py_ssize_t at, Py_ssize_t end, Py_ssize_t count)
    cdef str _topic_of(self, bytes name)

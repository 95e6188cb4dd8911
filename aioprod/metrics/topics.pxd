cimport cython


@cython.final
cdef class TopicMeter:
    cdef readonly long long records, bytes, bytes_uncompressed, retries, errors

    cpdef void retried(self, long long records) except *
    cpdef void failed(self, long long records) except *


@cython.final
cdef class TopicMeters:
    cdef readonly dict by_topic
    cdef readonly TopicMeter others
    cdef Py_ssize_t _topics_max

    cpdef TopicMeter of(self, str topic)
    @cython.locals(meter=TopicMeter)
    cpdef void sent(self, str topic, long long records, long long size, long long size_uncompressed) except *

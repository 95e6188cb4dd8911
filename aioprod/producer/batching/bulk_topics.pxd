cimport cython

from aioprod.arrow.columns cimport BytesColumn
from aioprod.producer.batching.accumulator cimport Accumulator
from aioprod.producer.batching.partition cimport Topic
from aioprod.routing.hashes cimport murmur2_of


cdef Py_ssize_t _TOPIC_SLOTS, _TOPICS_MAX, TOPIC_NAME_LENGTH_MAX


@cython.final
cdef class KnownTopic:
    cdef bytes name
    cdef Topic topic
    cdef int number


@cython.final
cdef class RowTopics:
    cdef object _bulk, _errors
    cdef BytesColumn _column
    cdef list _known
    cdef int _known_count
    cdef readonly int number
    cdef readonly object unknown

    cdef void begin_turn(self) noexcept
    @cython.locals(column=BytesColumn, slot=Py_ssize_t, known=KnownTopic)
    cdef Topic find(self, Accumulator accumulator, Py_ssize_t row, double now)
    @cython.locals(column=BytesColumn, data="const unsigned char *", start=Py_ssize_t, left=Py_ssize_t)
    cdef bint _is_name(self, bytes name) except -1
    @cython.locals(column=BytesColumn)
    cdef KnownTopic _look_up(self, Accumulator accumulator, double now)

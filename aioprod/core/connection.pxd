cimport cython

from aioprod.wire.frame cimport FrameSplitter, decode_response_header, request_header


@cython.final
cdef class Exchange:
    cdef readonly object kind, complete
    cdef readonly int version, correlation_id
    cdef readonly double timeout_s, deadline


cdef class Connection:
    cdef public str peer
    cdef readonly str protocol
    cdef public object phase, versions, error, login
    cdef readonly object exchanges
    cdef public double throttled_until
    cdef readonly double last_used, logged_in_at
    cdef str _client_id
    cdef tuple _software
    cdef double _timeout_s
    cdef FrameSplitter _splitter
    cdef public int _correlation_id
    cdef int _first_id
    cdef bytes _output

    @cython.locals(correlation_id=int, header=bytes)
    cpdef bytes begin(
        self, kind, int version, bint flexible, Py_ssize_t size, double now, complete, timeout_s=*,
        bint expect_response=*,
    )
    @cython.locals(exchange=Exchange, correlation_id=int)
    cdef tuple _match(self, memoryview frame)

cimport cython

from aioprod.wire.frame cimport FrameSplitter, decode_response_header, request_head


cdef int _CORRELATION_ID_MAX


@cython.final
cdef class Exchange:
    cdef readonly object kind, complete
    cdef public memoryview body
    cdef readonly int version, correlation_id
    cdef readonly double timeout_s, deadline


cdef class Connection:
    cdef public str peer
    cdef readonly str protocol
    cdef public object phase, versions, error, login
    cdef readonly object exchanges
    cdef public double throttled_until
    cdef public double last_used
    cdef readonly double newest_deadline, logged_in_at
    cdef bytes _header_end, _flexible_end
    cdef object _hello
    cdef double _timeout_s
    cdef readonly FrameSplitter splitter
    cdef list _frames
    cdef double _now
    cdef public int _correlation_id
    cdef int _first_id
    cdef Py_ssize_t _frame_size_max
    cdef bytes _output

    @cython.locals(correlation_id=int, end=bytes)
    cpdef bytes begin(
        self, kind, int version, bint flexible, Py_ssize_t size, double now, complete, timeout_s=*,
        bint expect_response=*,
    )
    cpdef void received(self, bytes data, Py_ssize_t count, double now) except *
    @cython.locals(exchange=Exchange, correlation_id=int, body=memoryview, frame=memoryview)
    cpdef Exchange next_answered(self)
    cdef _answered(self, Exchange exchange, memoryview body, double now)

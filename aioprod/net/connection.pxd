cimport cython

from aioprod.net.protocol.connection cimport Connection, Exchange
from aioprod.net.events cimport ConnectionOwner
from aioprod.net.traffic cimport Traffic


cdef object _READY, _NEW


cdef class BrokerConnection:
    cdef object __weakref__
    cdef public object address, tls, versions
    cdef public str local
    cdef public int node_id
    cdef public bint can_write, is_ready, is_stopped, closed
    cdef Connection _state
    cdef ConnectionOwner _owner
    cdef Traffic _traffic
    cdef object _loop, _clock, _wake_at, _failed, _gone, _working, _transport
    cdef bint _shut, _is_paused, _is_renewing
    cdef double _polled_by

    @cython.locals(state=Connection, exchange=Exchange, now=double)
    cpdef received(self, Py_ssize_t count, bytes data=*)
    cpdef bint accepts_request(self, double now) except -1
    cpdef send_parts(
        self, kind, int version, bint flexible, parts, Py_ssize_t size, complete, timeout_s=*, bint expect_response=*
    )

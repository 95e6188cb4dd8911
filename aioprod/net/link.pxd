from aioprod.net.connection cimport BrokerConnection
from aioprod.net.events cimport ConnectionOwner


cdef object _READY


cdef class BrokerLink(ConnectionOwner):
    cdef object __weakref__
    cdef public object node, address, state, last_error, session
    cdef public BrokerConnection connection
    cdef public int attempts
    cdef public double backoff_until, connecting_since
    cdef public bint retired, was_ready
    cdef object _context, _attempt
    cdef readonly object _handover
    cdef bint _wanted
    cdef int _mismatches

    cpdef bint is_ready(self, double now) except -1
    cpdef bint ensure(self, double now) except -1
    cdef bint _is_stale(self, BrokerConnection connection) except -1
    cpdef connection_data(self, connection, double now)

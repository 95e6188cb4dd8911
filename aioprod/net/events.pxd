cdef class ConnectionOwner:
    cpdef connection_data(self, connection, double now)

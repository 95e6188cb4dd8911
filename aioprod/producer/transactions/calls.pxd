from aioprod.producer.guard cimport Guard


cdef class TransactionalCalls:
    cdef readonly object config, _engine
    cdef Guard _guard

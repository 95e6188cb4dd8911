cimport cython

from aioprod.producer.batching.accumulator cimport Accumulator
from aioprod.producer cimport native
from aioprod.producer.callbacks cimport DeliveryCallbacks
from aioprod.producer.clock cimport Clock
from aioprod.producer.transactions.calls cimport TransactionalCalls


cdef class ProducerCalls(TransactionalCalls):
    cdef Clock _clock
    cdef Accumulator _accumulator
    cdef DeliveryCallbacks _callbacks
    cdef object _checked, _new_future, __weakref__
    cdef dict _in_loop
    cdef dict __dict__
    cdef bint _is_plain

    @cython.locals(encoded=bytes, index=int, now_ns="long long", at_ms="long long")
    cdef _take(self, str topic, value, key, partition, headers, timestamp, waiter)

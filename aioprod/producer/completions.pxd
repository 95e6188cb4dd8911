cimport cython

from aioprod.producer.batching.accumulator cimport Accumulator
from aioprod.producer.batching.batch cimport Batch, Run
from aioprod.producer.batching.lifecycle cimport release
from aioprod.producer.completion cimport Completion
from aioprod.producer.meters cimport Meters


cdef object DeliveryFuture, InvalidStateError, _set_result
cdef Py_ssize_t _SLICE_COST, _FUTURE_COST, _RUN_SLICE


@cython.final
cdef class Completions:
    cdef Accumulator _accumulator
    cdef object _loop, _plain_future, _clock, _interceptors, _reports, _faults, _rules, _memory_waiters, _on_failure, _queue
    cdef Meters _meters
    cdef bint _intercepted, _scheduled
    cdef double _spent_s
    cdef readonly long long delivered
    cdef readonly dict counts
    cdef public list undelivered

    cdef bint _step(self, Completion completion) except -1
    @cython.locals(batch=Batch, waiters=list, withdrawn=set, cost=Py_ssize_t, unheard=bint)
    cdef bint _complete_some(self, Completion completion) except -1
    cdef Py_ssize_t _complete_record(self, Completion completion, waiter) except -1
    @cython.locals(count=Py_ssize_t, first=Py_ssize_t, offset="long long", _=Py_ssize_t)
    cdef Py_ssize_t _complete_run(self, Completion completion, Run run) except -1
    @cython.locals(batch=Batch)
    cdef _close(self, Completion completion)

cimport cython

from aioprod.producer.batching.accumulator cimport Accumulator
from aioprod.net.connection cimport BrokerConnection
from aioprod.net.link cimport BrokerLink
from aioprod.producer.batching.produce cimport PlainAnswer, ProduceEncoder, read_plain
from aioprod.producer.batching.batch cimport Batch
from aioprod.producer.batching.partition cimport BrokerQueue
from aioprod.producer.batching.drain cimport drain
from aioprod.producer.batching.lifecycle cimport compressed
from aioprod.producer.meters cimport Meters
from aioprod.producer.outcomes cimport Outcomes
from aioprod.records.builder cimport RecordBatchBuilder


@cython.final
cdef class Sender:
    cdef Accumulator _accumulator
    cdef Meters _meters
    cdef ProduceEncoder _encoder
    cdef Outcomes _outcomes
    cdef object _client, _clock, _compressor, _completions, _on_failure, _scheduled, _compression_level
    cdef object _turn, _wake_at
    cdef bint _is_closing, _expects_answers, _lingers, _adaptive_linger, _transactional
    cdef int _codec, _in_flight_max
    cdef Py_ssize_t _request_size_max, _large_request_size
    cdef double _request_timeout_s
    cdef object _negotiated
    cdef int _version_max, _version_picked

    @cython.locals(queue=BrokerQueue)
    cpdef refill(self, int node_id)
    @cython.locals(start=double, hold_s=double)
    cpdef _serve_scheduled(self)
    @cython.locals(
        link=BrokerLink, connection=BrokerConnection, batches=list, size_max=Py_ssize_t, raw_max=Py_ssize_t, raw_min=Py_ssize_t,
        due=double, now=double, has_room=bint,
    )
    cpdef serve(self, BrokerQueue queue)
    cdef Py_ssize_t _size_max(self, BrokerQueue queue) except -1
    cdef bint _cut(self, BrokerQueue queue) except -1
    cdef _stall(self, BrokerQueue queue, double now)
    @cython.locals(
        batch=Batch, builder=RecordBatchBuilder, version=int, parts=list, raw=Py_ssize_t, size=Py_ssize_t,
    )
    cdef Py_ssize_t _transmit(self, BrokerQueue queue, BrokerConnection connection, list batches, double now) except -1
    @cython.locals(batch=Batch)
    cdef _version(self, BrokerConnection connection, list batches)
    @cython.locals(now=double, batches=list, batch=Batch, plain=PlainAnswer, throttle_time_ms=int, place=Py_ssize_t)
    cdef answered(self, Sent sent, body, error)


@cython.final
@cython.freelist(32)
cdef class Sent:
    cdef Sender sender
    cdef BrokerQueue queue
    cdef BrokerConnection connection
    cdef int version
    cdef list batches
    cdef double sent_at

cimport cython

from aioprod.producer.batching.batch cimport Batch
from aioprod.metrics.instruments cimport Histogram
from aioprod.metrics.topics cimport TopicMeters
from aioprod.records.builder cimport RecordBatchBuilder


cdef Py_ssize_t HEADER


@cython.final
cdef class Meters:
    cdef readonly object metrics
    cdef object _zones
    cdef set _connected
    cdef dict _latencies
    cdef TopicMeters _topics
    cdef readonly Histogram loop_hold
    cdef Histogram _record_delivery_time
    cdef Histogram _batch_size, _compression_rate, _record_queue_time, _records_per_request, _request_latency
    cdef Histogram _throttle_time

    @cython.locals(batch=Batch, builder=RecordBatchBuilder, count="long long", records="long long", total="long long", size=Py_ssize_t, compressed_size=Py_ssize_t)
    cpdef sent(self, int node_id, list batches, double now)
    @cython.locals(latency=Histogram)
    cpdef answered(self, int node_id, double latency_s, int throttle_time_ms)
    cpdef void delivered(self, Batch batch, double now) except *

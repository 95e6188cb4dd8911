cimport cython

from aioprod.producer.batching.batch cimport Batch
from aioprod.routing.sticky cimport StickyChoice


cdef int OPEN, QUEUED
cdef double _NEVER, _PACE_MIN_S, _PATIENCE_S_MIN
cdef int _PATIENCE_ROUND_TRIPS


@cython.final
cdef class BrokerQueue:
    cdef public object notify, ready, stalled_since
    cdef public dict unfinished
    cdef public list lingering
    cdef public int node_id, in_flight
    cdef public double round_trip_s, pace_s, paced_until, lost_at, in_flight_s, in_flight_since, full_s, full_since
    cdef public long long round
    cdef public bint scheduled

    cpdef void drain_soon(self) except *
    cpdef void left(self, double now, int in_flight_max) except *
    cpdef void landed(self, list batches, double now, int in_flight_max) except *
    @cython.locals(batch=Batch, head=Batch, partition=Partition)
    cdef double _waits_since(self, list batches, double now) except? -1
    @cython.locals(pace_s=double)
    cpdef void answered(self, double after_s, int in_flight_max) except *
    @cython.locals(due=double, batch=Batch)
    cpdef double next_due(self) except -1
    cpdef bint has_work(self) except -1
    @cython.locals(since=double)
    cpdef bint is_stuck(self, double now) except -1


@cython.final
cdef class Partition:
    cdef public Topic topic
    cdef public BrokerQueue queue
    cdef public Batch open
    cdef public object queued, unacknowledged
    cdef public int index, in_flight_max, leader_epoch, room, in_flight, retrying, epoch, acknowledged_epoch
    cdef public long long round, producer_id, next_sequence, unknown_serial, gap_from, transaction
    cdef public long long acknowledged_serial, acknowledged_offset, acknowledged_producer_id, acknowledged_sequence
    cdef public Py_ssize_t uncounted, uncounted_bytes
    cdef public double retry_at, moved_at
    cdef public object stuck_since, unknown
    cdef public bint listed, is_established, has_unexplained_gap, suspended

    @cython.locals(at_most=int)
    cpdef bint muted(self, double now) except -1
    @cython.locals(queue=BrokerQueue)
    cpdef bint is_stuck(self, double now) except -1
    @cython.locals(queue=BrokerQueue)
    cpdef bint moves(self, double since, double now) except -1
    cpdef Batch first(self)
    @cython.locals(queue=BrokerQueue, head=Batch, open_batch=Batch, has_grown=bint, due=double)
    cpdef void enlist(self, double now, double linger_s) except *
    @cython.locals(at=Py_ssize_t, before=Batch)
    cpdef void enqueue(self, Batch batch) except *
    @cython.locals(batch=Batch)
    cpdef void close_batch(self) except *
    @cython.locals(topic=Topic)
    cpdef void end_turn(self, Py_ssize_t size, double availability_timeout_s, double now) except *


@cython.final
cdef class Topic:
    cdef public str name
    cdef readonly bytes name_bytes
    cdef public StickyChoice sticky
    cdef public list partitions
    cdef public dict queue_lengths
    cdef public object parked, topic_id, error, size_limit, stuck_since
    cdef public Py_ssize_t parked_bytes
    cdef readonly object withdraw
    cdef public int count, stuck_count
    cdef public double touched_at

    cpdef void count_queued(self, int index, int change) except *

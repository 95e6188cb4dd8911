cimport cython

from aioprod.consumed_record cimport ConsumedRecord
from aioprod.group.open_batch cimport OpenBatch


@cython.final
cdef class AvailableRecords:
    cdef OpenBatch _batch
    cdef object _clock
    cdef double _until
    cdef readonly long long returned
    cdef public ConsumedRecord last

    cpdef void offer(self, OpenBatch batch, clock, double until)
    cpdef void withdraw(self)
    @cython.locals(batch=OpenBatch, record=ConsumedRecord)
    cpdef ConsumedRecord take(self)

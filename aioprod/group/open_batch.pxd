cimport cython

from aioprod.consumed_record cimport ConsumedRecord
from aioprod.reader.consumed_records cimport ConsumedRecords


@cython.final
cdef class OpenBatch:
    cdef readonly object fetched
    cdef public long long offset
    cdef public object decompressing, reader
    cdef public ConsumedRecords records
    cdef public ConsumedRecord record

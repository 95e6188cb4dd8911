cimport cython

from aioprod.records.parser cimport RecordWalk
from aioprod.records.spare_buffers cimport SpareBuffers
# Last: of declarations of one name Cython keeps the bodies of those that it read last.
from aioprod.wire cimport memory


cdef Py_ssize_t _room_for(Py_ssize_t size, Py_ssize_t room) noexcept


@cython.final
cdef class BytesColumn:
    cdef bytearray _data, _places, _bits
    cdef unsigned char *_data_at
    cdef unsigned char *_places_at
    cdef unsigned char *_bits_at
    cdef SpareBuffers _spares
    cdef Py_ssize_t _rows_max, _room, _size_first
    cdef readonly Py_ssize_t rows, size, nulls

    cdef int append(self, const unsigned char *source, Py_ssize_t start, Py_ssize_t size) except -1
    @cython.locals(rows=Py_ssize_t, places=bytearray, bits=bytearray)
    cdef int _more_rows(self) except -1
    @cython.locals(room=Py_ssize_t, data=bytearray)
    cdef int _more_room(self, Py_ssize_t size) except -1
    cpdef buffers(self)


@cython.final
cdef class RecordTable:
    cdef BytesColumn _keys, _values, _names, _name_values
    cdef SpareBuffers _spares, _no_spares
    cdef Py_ssize_t _room_max
    cdef bytearray _offsets, _timestamps, _header_places
    cdef unsigned char *_offsets_at
    cdef unsigned char *_timestamps_at
    cdef unsigned char *_header_places_at
    cdef bint _with_headers
    cdef Py_ssize_t _header_count, _key_room, _value_room
    cdef readonly Py_ssize_t rows, rows_max, size_max

    cdef int _clear(self) except -1
    @cython.locals(size=Py_ssize_t)
    cdef Py_ssize_t _size(self) noexcept
    cpdef bint is_full(self)
    cpdef take(self)


@cython.final
cdef class TableReader(RecordWalk):
    cdef Py_ssize_t _left, _headers_start
    cdef long long _start_offset, _end_offset, _header_count

    cpdef bint read(self, RecordTable table, Py_ssize_t records=*) except -1
    cdef int _step(self) except -1
    @cython.locals(left="long long", size=Py_ssize_t, start=Py_ssize_t, end=Py_ssize_t)
    cdef int _copy_headers(self, RecordTable table) except -1

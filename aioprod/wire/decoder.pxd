cimport cython

from aioprod.wire cimport memory
from aioprod.wire.buffer cimport Reader


cdef class Decoder:
    cdef read(self, Reader reader)


@cython.final
cdef class _Boolean(Decoder):
    pass


@cython.final
cdef class _Integer(Decoder):
    cdef Py_ssize_t _size


@cython.final
cdef class _Uuid(Decoder):
    pass


cdef class _Sized(Decoder):
    cdef str _label
    cdef bint _compact, _nullable

    cdef _null(self)


cdef class _Text(_Sized):
    pass


@cython.final
cdef class _Shown(_Text):
    pass


cdef class _View(_Sized):
    pass


@cython.final
cdef class _Bytes(_View):
    pass


cdef class _Elements(_Sized):
    cdef Decoder _element

    @cython.locals(count=Py_ssize_t, element=Decoder)
    cdef read(self, Reader reader)


@cython.final
cdef class _NullableStruct(Decoder):
    cdef Decoder _struct


@cython.final
cdef class _Field:
    cdef str name
    cdef Decoder decoder


cdef class _Struct(Decoder):
    cdef object _kind
    cdef bint _flexible
    cdef list _fields, _defaults
    cdef dict _tagged

    @cython.locals(field=_Field)
    cdef read(self, Reader reader)
    @cython.locals(previous=Py_ssize_t, tag=Py_ssize_t, field=_Field, inner=Reader)
    cdef _read_tagged(self, Reader reader, value)

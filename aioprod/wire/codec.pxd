cimport cython

from aioprod.wire.buffer cimport Reader
from aioprod.wire.decoder cimport Decoder


@cython.locals(decoder=Decoder, reader=Reader)
cpdef decode(kind, version, data)

cdef class Scheduler:
    cdef object _loop, _clock, _timer, _sleeper
    cdef double _due

    cpdef wake_at(self, double due)

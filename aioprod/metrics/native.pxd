cdef inline long long whole(double value) noexcept nogil:
    return <long long>value

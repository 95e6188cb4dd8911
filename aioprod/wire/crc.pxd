cpdef crc32c(data)

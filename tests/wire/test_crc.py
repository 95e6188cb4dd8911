from __future__ import annotations

import pytest

from aioprod.wire import crc
from aioprod.wire.buffer import Buffer


@pytest.mark.parametrize("data", [b"123456789", bytearray(b"123456789"), memoryview(b"_123456789_")[1:-1]])
def test_the_check_value_of_crc_32c(data: Buffer) -> None:
    assert crc.function()(data) == 0xE306_9283


def test_the_vector_of_rfc_3720() -> None:
    assert crc.function()(bytes(32)) == 0x8A91_36AA
    assert crc.function()(b"") == 0

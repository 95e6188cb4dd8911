"""An order, as clients send it and as it is stored."""

from __future__ import annotations

from typing import Annotated
from uuid import UUID, uuid4

from pydantic import BaseModel, Field

__all__ = ["Order"]

# What can't be stored is no name: a NUL, which is not text in Postgres, and half of a surrogate pair, which JSON can
# have and UTF-8 can't. The pattern has no NUL, and no pattern takes the other.
Name = Annotated[str, Field(min_length=1, max_length=200, pattern=r"^[^\x00]*$")]


class Order(BaseModel):
    """What a customer wants. A client that chooses `id` itself may send the order again after a lost response."""

    id: UUID = Field(default_factory=uuid4)
    customer: Name
    item: Name
    quantity: Annotated[int, Field(ge=1, le=1_000_000)]

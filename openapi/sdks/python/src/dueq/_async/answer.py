"""What a transport is told, and what it brings."""

from collections.abc import Mapping
from typing import NamedTuple, Union

# In seconds: of all, or of connecting and of what follows.
Timeout = Union[float, tuple[float, float]]


class Answer(NamedTuple):
    """What came back, read to its end."""

    status: int
    headers: Mapping[str, str]
    data: bytes

    @property
    def response(self) -> "Answer":
        """For the generated code."""
        return self

    async def read(self) -> bytes:
        """For the generated code."""
        return self.data


RESTResponseType = Answer

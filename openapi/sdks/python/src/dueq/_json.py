"""JSON as dueq keeps it: payloads come back as they were sent, as far as Python can hold them.

Python's own reader turns `1e400` into infinity and refuses integers of more than 4300 digits, its writer makes `Infinity` of
the one and cannot write `Decimal`. Here such numbers are `decimal.Decimal` in both directions; floats that Python holds stay
floats. NaN and infinity, which JSON does not have, raise ValueError when they are written.
"""

import json
import os
import re
from datetime import date
from decimal import Decimal
from enum import Enum
from math import isfinite
from typing import Any, Union
from uuid import UUID

# Stands before a number inside a string until the text is written; nobody can guess it.
_mark = os.urandom(16).hex()
_marked = re.compile(f'"{_mark}([^"]*)"')


def _real(digits: str) -> Union[float, Decimal]:
    number = float(digits)
    return number if isfinite(number) else Decimal(digits)


def _whole(digits: str) -> Union[int, Decimal]:
    try:
        return int(digits)
    except ValueError:
        return Decimal(digits)


def _other(item: Any) -> Any:
    if isinstance(item, Decimal):
        if not item.is_finite():
            raise ValueError(f"{item} is no JSON number")
        return f"{_mark}{item}"
    if isinstance(item, UUID):
        return str(item)
    if isinstance(item, date):
        return item.isoformat()
    if isinstance(item, Enum):
        return item.value
    if hasattr(item, "to_dict"):
        return item.to_dict()
    raise TypeError(f"{type(item).__name__} has no form in JSON")


# Made once: json.loads and json.dumps with options make one a call, which takes as long as a lease's JSON itself.
_reader = json.JSONDecoder(parse_float=_real)
_patient_reader = json.JSONDecoder(parse_float=_real, parse_int=_whole)
_writer = json.JSONEncoder(default=_other, allow_nan=False, separators=(",", ":"), ensure_ascii=False)
# For halves of surrogate pairs, which are no UTF-8. What is not ASCII takes up to three times the room in it.
_escaping_writer = json.JSONEncoder(default=_other, allow_nan=False, separators=(",", ":"))


def loads(content: bytes) -> Any:
    """The value of a JSON text; raises ValueError where it is none."""
    text = content.decode()
    try:
        return _reader.decode(text)
    except json.JSONDecodeError:
        raise
    except ValueError:  # an integer too long for int()
        return _patient_reader.decode(text)


def dumps(value: Any) -> bytes:
    """The JSON text of a value, which may hold models of this package, Decimal, UUID, datetime and enums."""
    try:
        return _unmarked(_writer.encode(value)).encode()
    except UnicodeEncodeError:
        return _unmarked(_escaping_writer.encode(value)).encode()


def _unmarked(text: str) -> str:
    return _marked.sub(r"\1", text) if _mark in text else text

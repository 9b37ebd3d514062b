"""What the generated APIs ask of a client, but for the sending: it is the same with asyncio and without.

The generated client is not used because it turns null into "absent", numbers into text, and each refusal into another
exception; its APIs and models are.
"""

import os
import re
import ssl
from collections.abc import Mapping
from enum import Enum
from typing import Any, Generic, NamedTuple, Optional, TypeVar
from urllib.parse import urlencode
from uuid import uuid4

from dueq import _json
from dueq._options import Duration, due, repeats, seconds
from dueq._server import base_headers, segment, server_url
from dueq.errors import ProblemError
from dueq.generated import models

# Stands before an instant in a query until `_word` writes it: its text alone does not tell it from a key.
_instant = os.urandom(8).hex()


class Configuration(NamedTuple):
    """The one setting that the generated code looks up."""

    datetime_format: str = f"{_instant}%Y-%m-%dT%H:%M:%S.%f%z"


class How(NamedTuple):
    """What a request allows its sender."""

    # Sending it twice does no more than sending it once.
    repeat: bool = False
    # After a try without an answer, 404 means that this try did it.
    gone_is_done: bool = False
    # The server may take so much longer.
    wait_s: float = 0.0


ONCE = How()

RequestSerialized = tuple[str, str, dict[str, str], Optional[bytes], How]


T = TypeVar("T")


class ApiResponse(Generic[T]):
    """What a method `…_with_http_info` returns: `data` is what the method itself would, `raw_data` the body."""

    def __init__(self, status_code: int, headers: Mapping[str, str], data: T, raw_data: bytes) -> None:
        self.status_code = status_code
        self.headers = headers
        self.data = data
        self.raw_data = raw_data


class Requests:
    """Requests made of the arguments of generated methods, and answers made into models."""

    def __init__(self, server: Optional[str], api_key: Optional[str], ssl_context: Optional[ssl.SSLContext]) -> None:
        self.configuration = Configuration()
        self.server = server_url(server)
        self.headers = base_headers(api_key)
        self.ssl_context = ssl_context
        self.retries = True
        self.timeout_s = self.deadline_s = 30.0

    def set(self, timeout: Optional[Duration], deadline: Optional[Duration], retries: Optional[bool]) -> None:
        """Sets what is given."""
        if timeout is not None:
            self.timeout_s = seconds("timeout", timeout)
            if self.timeout_s == 0:
                raise ValueError("timeout is more than 0")
        if deadline is not None:
            self.deadline_s = seconds("deadline", deadline)
        if retries is not None:
            self.retries = retries
        if self.deadline_s == 0:
            self.retries = False

    @property
    def closed(self) -> bool:
        """Whether the client is closed."""
        raise NotImplementedError

    def select_header_accept(self, accepts: list[str]) -> Optional[str]:
        return ", ".join(accepts) or None

    def select_header_content_type(self, content_types: list[str]) -> Optional[str]:
        return content_types[0] if content_types else None

    def param_serialize(
        self,
        method: str,
        resource_path: str,
        path_params: Optional[dict[str, Any]] = None,
        query_params: Optional[list[tuple[str, Any]]] = None,
        header_params: Optional[dict[str, Any]] = None,
        body: Any = None,
        _request_auth: Optional[dict[str, Any]] = None,
        **_unused: Any,
    ) -> RequestSerialized:
        path = resource_path
        for name, value in (path_params or {}).items():
            path = path.replace(f"{{{name}}}", segment(_word(value)))
        url = self.server + path
        if query_params:
            url += "?" + urlencode([(name, _word(value)) for name, value in query_params])
        headers = {**self.headers, **{k: str(v) for k, v in (header_params or {}).items() if v is not None}}
        if _request_auth:
            headers[_request_auth["key"]] = _request_auth["value"]
        if self.retries and resource_path in ("/topics/{topic}/messages", "/callbacks") and method == "POST":
            if not repeats(body):
                headers.setdefault("Idempotency-Key", str(uuid4()))
        for message in getattr(body, "messages", None) or (body,):
            due(None, getattr(message, "deliver_at", None))
        how = How(
            self.retries and _repeatable(method, resource_path, query_params, headers, body),
            method == "DELETE" or resource_path == "/messages/{id}/ack",
            (getattr(body, "wait_ms", None) or 0) / 1000,
        )
        return method, url, headers, _content(body, headers), how

    def response_deserialize(self, response_data: Any, response_types_map: dict[str, Optional[str]]) -> "ApiResponse[Any]":
        """The model of a 2xx answer; raises ProblemError for any other."""
        status: int = response_data.status
        headers: Mapping[str, str] = response_data.headers
        content: bytes = response_data.data
        if not 200 <= status <= 299:
            raise ProblemError.from_answer(status, headers, content)
        kind = response_types_map.get(str(status))
        data: Any = None
        if kind == "str":
            data = content.decode()
        elif kind == "bytes":
            data = content
        elif kind is not None:
            data = _json.loads(content)
            model = getattr(models, kind, None)
            if model is not None:
                data = model.from_dict(data)
        return ApiResponse(status_code=status, headers=dict(headers.items()), data=data, raw_data=content)


def _repeatable(method: str, path: str, query: Optional[list[tuple[str, Any]]], headers: dict[str, str], body: Any) -> bool:
    if method == "GET":
        return path not in ("/healthz", "/readyz")  # who asks wants to know now
    if path in ("/messages/{id}", "/topics/{topic}/keys/{key}"):
        return True
    last = path.rsplit("/", 1)[1]
    if last in ("ack", "nack", "extend"):
        return True
    if last == "batch":
        return all(repeats(message) for message in body.messages)
    return any(("Idempotency-Key" in headers, repeats(body), dict(query or ()).get("idempotency_key")))


def _word(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, Enum):
        return str(value.value)
    text = str(value)
    if not text.startswith(_instant):
        return text
    text = text[len(_instant) :]
    # strftime writes an offset as +0100, RFC 3339 wants +01:00.
    written = re.fullmatch(r"(.*[+-]\d\d)(\d\d)[\d.]*", text)
    if written is None:
        raise ValueError(f"a datetime without a time zone: {text}")
    return f"{written[1]}:{written[2]}"


def _content(body: Any, headers: dict[str, str]) -> Optional[bytes]:
    if body is None:
        headers.pop("Content-Type", None)
        return None
    if re.search(r"\bjson\b", headers.get("Content-Type", "application/json")) and not isinstance(body, bytes):
        return _json.dumps(body)
    if isinstance(body, tuple):  # a file's name and content
        body = body[1]
    return body if isinstance(body, bytes) else str(body).encode()

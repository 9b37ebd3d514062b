"""What the generated APIs ask of a client, but for the sending: it is the same with asyncio and without.

The generated client is not used because it turns null into "absent", numbers into text, and each refusal into another
exception; its APIs and models are.
"""

import re
from collections.abc import Mapping
from enum import Enum
from typing import Any, NamedTuple, Optional
from urllib.parse import quote, urlencode

from dueq import _json
from dueq._server import base_headers, server_url
from dueq.errors import ProblemError
from dueq.generated import models
from dueq.generated.api_response import ApiResponse

# Above the longest wait of a lease.
TIMEOUT_S = 90.0

RequestSerialized = tuple[str, str, dict[str, str], Optional[bytes], Any]


class Configuration(NamedTuple):
    """The one setting that the generated code looks up."""

    datetime_format: str = "%Y-%m-%dT%H:%M:%S.%f%z"


class Requests:
    """Requests made of the arguments of generated methods, and answers made into models."""

    def __init__(self, server: Optional[str] = None, api_key: Optional[str] = None) -> None:
        self.configuration = Configuration()
        self.server = server_url(server)
        self.headers = base_headers(api_key)

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
        for name, value in (path_params or {}).items():
            resource_path = resource_path.replace(f"{{{name}}}", quote(_word(value), safe=""))
        url = self.server + resource_path
        if query_params:
            url += "?" + urlencode([(name, _word(value)) for name, value in query_params])
        headers = {**self.headers, **{k: str(v) for k, v in (header_params or {}).items() if v is not None}}
        if _request_auth:
            headers[_request_auth["key"]] = _request_auth["value"]
        return method, url, headers, _content(body, headers), None

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
        elif kind is not None:
            data = _json.loads(content)
            model = getattr(models, kind, None)
            if model is not None:
                data = model.from_dict(data)
        return ApiResponse(status_code=status, headers=dict(headers.items()), data=data, raw_data=content)


def _word(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, Enum):
        return str(value.value)
    text = str(value)
    # strftime writes an offset as +0100, RFC 3339 wants +01:00.
    return re.sub(r"(T[\d:.]+[+-]\d\d)(\d\d)$", r"\1:\2", text)


def _content(body: Any, headers: dict[str, str]) -> Optional[bytes]:
    if body is None:
        headers.pop("Content-Type", None)
        return None
    if re.search(r"\bjson\b", headers.get("Content-Type", "application/json")) and not isinstance(body, bytes):
        return _json.dumps(body)
    if isinstance(body, tuple):  # a file's name and content
        body = body[1]
    return body if isinstance(body, bytes) else str(body).encode()

"""Where the server is and how one asks there: what client and worker share."""

import os
import re
from typing import Optional
from urllib.parse import quote, urlsplit

from dueq._version import __version__

USER_AGENT = f"dueq-python/{__version__}"


def server_url(server: Optional[str]) -> str:
    """The server's base URL, without a slash at its end: given, `DUEQ_SERVER`, or the default."""
    url = str(server or os.environ.get("DUEQ_SERVER") or "http://127.0.0.1:8080").rstrip("/")
    parts = urlsplit(url)
    if parts.username is not None:  # what is in a URL gets into logs
        raise ValueError("a server's URL has no user and password: use api_key")
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.port == 0 or re.search(r"[\s\0-\x1f]", url):
        raise ValueError(f"not an http or https URL: {url!r}")
    return url


def base_headers(api_key: Optional[str]) -> dict[str, str]:
    """The headers of every request; the key is the one given or `DUEQ_API_KEY`."""
    headers = {"User-Agent": USER_AGENT}
    key = api_key or os.environ.get("DUEQ_API_KEY")
    if key:
        if not re.fullmatch(r"[!-~]+", key):  # the key itself is not for logs
            raise ValueError("an API key is visible ASCII characters, without spaces and line ends")
        headers["Authorization"] = f"Bearer {key}"
    return headers


def segment(text: str) -> str:
    """A name as a segment of a path; one that is only dots would lead elsewhere."""
    quoted = quote(text, safe="")
    return quoted.replace(".", "%2E") if quoted in (".", "..") else quoted


def reason(error: BaseException) -> str:
    """What the network said: the innermost cause of a library's error."""
    inner = error.__cause__ or error.__context__
    return reason(inner) if inner is not None else str(error) or type(error).__name__

"""Sends requests by http.client; safe to use from several threads."""

import http.client
import io
import os
import selectors
import socket
import ssl
import time
from collections.abc import Mapping
from contextlib import suppress
from math import inf
from typing import Any, Optional, cast
from urllib.parse import SplitResult, urlsplit

from dueq._server import reason
from dueq._sync.answer import Answer, Timeout
from dueq.errors import ConnectError, TimeoutError


class Transport:
    """One pool of connections."""

    def __init__(self, connections: int, ssl_context: Optional[ssl.SSLContext]) -> None:
        self._most = connections
        self._ssl_context = ssl_context
        self._idle: list[_Connection] = []
        self.closed = False

    def send(
        self, method: str, server: str, url: str, headers: dict[str, str], body: Optional[bytes], timeout: Timeout
    ) -> Answer:
        """The answer, whatever it is; raises ConnectError and TimeoutError where there is none."""
        if self.closed:
            raise RuntimeError("this client is closed")
        operation = f"{method} {url[len(server) :]}"
        connection = self._take(urlsplit(server))
        sent = kept = False
        try:
            connection.limit(timeout[0] if isinstance(timeout, tuple) else timeout)
            if connection.sock is None:
                connection.connect()
            sent = True
            if isinstance(timeout, tuple):
                connection.limit(timeout[1])
            with suppress(ConnectionError):  # who reads no further may have answered why
                connection.request(method, url[url.index("/", 8) :], body, headers)
            response = connection.getresponse()
            content = response.read()
            kept = not response.will_close
        except socket.timeout as error:  # before 3.10 not a TimeoutError
            limit = sum(timeout) if isinstance(timeout, tuple) else timeout
            raise TimeoutError(server, operation, f"{limit:g} s have passed") from error
        except (http.client.HTTPException, OSError) as error:
            raise ConnectError(server, operation, reason(error), sent=sent) from error
        finally:
            if kept and len(self._idle) < self._most and not self.closed:
                self._idle.append(connection)
            else:
                connection.close()
        return Answer(response.status, cast(Mapping[str, str], response.headers), content)

    def _take(self, server: SplitResult) -> "_Connection":
        while True:
            try:
                connection = self._idle.pop()
            except IndexError:
                if server.scheme == "https" and self._ssl_context is None:
                    self._ssl_context = ssl.create_default_context()
                return _Connection(server, self._ssl_context)
            # What a fork has copied is its parent's.
            if connection.pid == os.getpid() and connection.is_open():
                return connection
            connection.close()

    def pause(self, seconds: float) -> None:
        """Waits."""
        time.sleep(seconds)

    def close(self) -> None:
        """Closes the idle connections, for good."""
        self.closed = True
        while self._idle:
            self._idle.pop().close()


class _Connection(http.client.HTTPConnection):
    """One whose limit holds for all that is sent and read, not for each piece of it: answers may drip."""

    def __init__(self, server: SplitResult, ssl_context: Optional[ssl.SSLContext]) -> None:
        self._context = ssl_context if server.scheme == "https" else None
        self.default_port = http.client.HTTPS_PORT if self._context else http.client.HTTP_PORT
        super().__init__(server.hostname or "", server.port or self.default_port)
        self.pid = os.getpid()
        self._end = inf

    def limit(self, seconds: float) -> None:
        """What follows may take so long."""
        self._end = time.monotonic() + seconds

    def _left(self) -> float:
        left = self._end - time.monotonic()
        if left <= 0:
            raise socket.timeout
        return left

    def connect(self) -> None:
        sock = self._reach()
        try:
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            if self._context is not None:
                sock.settimeout(self._left())
                sock = self._context.wrap_socket(sock, server_hostname=self.host)
        except BaseException:
            sock.close()
            raise
        self.sock = sock

    def _reach(self) -> socket.socket:
        error: Optional[OSError] = None
        for *_, address in socket.getaddrinfo(self.host, self.port, type=socket.SOCK_STREAM):
            try:
                return socket.create_connection((str(address[0]), self.port), self._left())
            except OSError as refused:
                error = refused
        raise error or OSError(f"{self.host} has no address")

    def is_open(self) -> bool:
        """Whether the server has left it open: what it sends by itself is the end."""
        with selectors.DefaultSelector() as selector:
            selector.register(self.sock, selectors.EVENT_READ)
            return not selector.select(0)

    def send(self, data: Any) -> None:
        rest = memoryview(data)
        while rest:
            self.sock.settimeout(self._left())
            rest = rest[self.sock.send(rest) :]

    def response_class(self, sock: socket.socket, **how: Any) -> http.client.HTTPResponse:  # type: ignore[override]
        response = http.client.HTTPResponse(sock, **how)
        response.fp = io.BufferedReader(_Limited(self, sock, response.fp.detach()))
        return response


class _Limited(io.RawIOBase):
    """What a connection reads, until its limit."""

    def __init__(self, connection: _Connection, sock: socket.socket, raw: io.RawIOBase) -> None:
        self._connection = connection
        self._sock = sock
        self._raw = raw

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> Optional[int]:
        self._sock.settimeout(self._connection._left())
        return self._raw.readinto(buffer)

    def close(self) -> None:
        self._raw.close()
        super().close()

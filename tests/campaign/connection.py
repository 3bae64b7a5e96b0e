# SPDX-License-Identifier: Apache-2.0
"""One connection of a client that waits for many at once: HTTP/1.1 as far as the campaign needs it, an answer at a time."""
import re
import socket

LENGTH = re.compile(rb"\r\ncontent-length: *(\d+)\r\n")
LAST_CHUNK = b"0\r\n\r\n"


def request_bytes(path, body, host):
    return (f"POST {path} HTTP/1.1\r\nHost: {host}\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n{body}"
            .encode())


def unchunked(data):
    """The body of chunks that have all come; None where the last one has not."""
    pieces = []
    begin = 0
    while True:
        end = data.find(b"\r\n", begin)
        if end < 0:
            return None
        size = int(data[begin:end], 16)
        begin = end + 2
        if size == 0:
            return b"".join(pieces)
        pieces.append(data[begin:begin + size])
        begin += size + 2


class Connection:
    """Opened with its first request, and again with the next one after close()."""

    def __init__(self, address, timeout):
        host, port = address.rsplit(":", 1)
        self.address, self.timeout = (host, int(port)), timeout
        self.socket = None

    def send(self, request):
        self.request, self.received, self.head = request, bytearray(), None
        self.reused = self.socket is not None
        if not self.reused:
            self.socket = socket.create_connection(self.address, timeout=self.timeout)
            self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.socket.sendall(request)

    def receive(self):
        """Waits for what comes next. (status, body) of an answer that is whole, else None. OSError where there is none."""
        data = self.socket.recv(1 << 16)
        if not data:
            raise ConnectionResetError("closed in the middle of an answer" if self.received or self.head else "no answer")
        self.received += data
        if self.head is None and not self.read_head():
            return None
        return self.whole()

    def read_head(self):
        end = self.received.find(b"\r\n\r\n")
        if end < 0:
            return False
        self.head = bytes(self.received[:end + 2]).lower()
        del self.received[:end + 4]
        length = LENGTH.search(self.head)
        self.length = None if length is None else int(length[1])
        return True

    def whole(self):
        status = int(self.head[9:12])
        if self.length is not None:
            return (status, bytes(self.received)) if len(self.received) >= self.length else None
        body = unchunked(self.received) if self.received.endswith(LAST_CHUNK) else None
        return None if body is None else (status, body)

    def close(self):
        if self.socket is not None:
            self.socket.close()
        self.socket = None

# SPDX-License-Identifier: Apache-2.0
"""One gRPC connection of a client that waits for many at once, with the interface of connection.py: HTTP/2 as far as one call at a
time needs it, without a package. Its header table has no room, so that a status stands in the trailers as it is.
Sources: RFC 9113, RFC 7541; gRPC over HTTP2."""
import re
import socket
import struct

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
DATA, HEADERS, RST_STREAM, SETTINGS, PING, GOAWAY, WINDOW_UPDATE = 0, 1, 3, 4, 6, 7, 8
END_STREAM, ACK, END_HEADERS = 1, 1, 4
WINDOW = 1 << 24            # of a stream and of the connection; no answer is as large
REFILL = 1 << 20            # of the connection, when so many bytes have come
STATUS = re.compile(rb"\x0bgrpc-status.(\d+)", re.S)


def frame(kind, flags, stream, payload=b""):
    return struct.pack(">IBI", len(payload) << 8 | kind, flags, stream) + payload


def text(value):
    """A string of HPACK, without Huffman's code."""
    assert len(value) < 127
    return bytes([len(value)]) + value.encode()


def grpc_request(path, message, host):
    """Headers, by static names or literal ones that no table keeps, and the message in a frame of gRPC."""
    headers = b"\x83\x86\x04" + text(path) + b"\x01" + text(host)
    for name, value in (("content-type", "application/grpc"), ("te", "trailers")):
        headers += b"\x00" + text(name) + text(value)
    return headers, struct.pack(">BI", 0, len(message)) + message


class GrpcConnection:
    """Opened with its first request, and again with the next one after close()."""

    def __init__(self, address, timeout):
        host, port = address.rsplit(":", 1)
        self.address, self.timeout = (host, int(port)), timeout
        self.socket = None

    def send(self, request):
        self.head, self.messages = None, bytearray()
        self.reused = self.socket is not None
        opening = b""
        if not self.reused:
            self.socket = socket.create_connection(self.address, timeout=self.timeout)
            self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self.stream, self.unseen, self.received = -1, 0, bytearray()
            opening = (PREFACE + frame(SETTINGS, 0, 0, struct.pack(">HIHIHI", 1, 0, 2, 0, 4, WINDOW))
                       + frame(WINDOW_UPDATE, 0, 0, struct.pack(">I", WINDOW)))
        self.stream += 2
        headers, message = request
        self.socket.sendall(opening + frame(HEADERS, END_HEADERS, self.stream, headers)
                            + frame(DATA, END_STREAM, self.stream, message))

    def receive(self):
        """Waits for what comes next. (200, messages with their prefixes) of a call that is whole, (0, trailers) of one that
        failed, else None. OSError where there is none."""
        data = self.socket.recv(1 << 16)
        if not data:
            raise ConnectionResetError("closed in the middle of an answer" if self.received or self.head else "no answer")
        self.received += data
        answer = None
        while len(self.received) >= 9:
            size = int.from_bytes(self.received[:3], "big")
            if len(self.received) < 9 + size:
                break
            kind, flags, stream = struct.unpack(">BBI", self.received[3:9])
            payload = bytes(self.received[9:9 + size])
            del self.received[:9 + size]
            taken = self.take(kind, flags, stream, payload)
            answer = answer or taken  # a reset may follow a whole answer
        return answer

    def take(self, kind, flags, stream, payload):
        if kind == DATA:
            self.refill(len(payload))
        if kind in (SETTINGS, PING) and not flags & ACK:
            self.socket.sendall(frame(kind, ACK, 0, payload if kind == PING else b""))
        if stream != self.stream:
            return None
        if kind == DATA:
            self.messages += payload
        elif kind == RST_STREAM:
            return 0, b"reset: " + payload
        elif kind == HEADERS:
            self.head = payload
        return self.whole() if flags & END_STREAM else None

    def whole(self):
        status = STATUS.search(self.head or b"")
        return (200, bytes(self.messages)) if status and status[1] == b"0" else (0, self.head or b"no trailers")

    def refill(self, size):
        self.unseen += size
        if self.unseen >= REFILL:
            self.socket.sendall(frame(WINDOW_UPDATE, 0, 0, struct.pack(">I", self.unseen)))
            self.unseen = 0

    def close(self):
        if self.socket is not None:
            self.socket.close()
        self.socket = None

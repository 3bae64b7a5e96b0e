# SPDX-License-Identifier: Apache-2.0
"""A TCP proxy in this process that delays what it passes on, and cuts connections off."""
import contextlib
import socket
import threading
import time


class Proxy:
    """In front of `target` ("host:port"). delay_s: of each piece, in either direction; cut_every: the n-th connection is
    reset after its first piece of answer; 0: none."""

    def __init__(self, target, delay_s=0.0, cut_every=0):
        host, port = target.rsplit(":", 1)
        self.target, self.delay_s, self.cut_every = (host, int(port)), delay_s, cut_every
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.address = f"127.0.0.1:{self.listener.getsockname()[1]}"
        self.accepted = 0
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        with contextlib.suppress(OSError):
            while True:
                client = self.listener.accept()[0]
                self.accepted += 1
                cut = self.cut_every > 0 and self.accepted % self.cut_every == 0
                server = socket.create_connection(self.target)
                for source, sink, resets in ((client, server, False), (server, client, cut)):
                    threading.Thread(target=self.pass_on, args=(source, sink, resets), daemon=True).start()

    def pass_on(self, source, sink, resets):
        with contextlib.suppress(OSError):
            while piece := source.recv(4096):
                time.sleep(self.delay_s)
                sink.sendall(piece)
                if resets:
                    for each in (source, sink):
                        each.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\x01\0\0\0\0\0\0\0")
                        each.shutdown(socket.SHUT_RDWR)  # also wakes the other thread, which keeps it open
                        each.close()
                    return
            sink.shutdown(socket.SHUT_WR)

    def close(self):
        self.listener.close()

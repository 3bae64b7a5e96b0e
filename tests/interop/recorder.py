# SPDX-License-Identifier: Apache-2.0
"""A proxy on loopback between a client and the server: it forwards every request, streams every answer back as it comes, and
keeps both. As the client's HTTP proxy it refuses what is for any other host and keeps that, too.

    with recorder.Recorder(BASE_URL) as record:
        ... a client of record.base_url, started in record.environment(HOME) ...
        record.check_all_answered()
"""

import http.client
import http.server
import json
import os
import threading
import urllib.parse

TIMEOUT_S = 120
HOP_BY_HOP = {"connection", "content-length", "host", "keep-alive", "proxy-connection", "transfer-encoding"}


class Exchange:
    """A request and its answer. body is JSON, or None where the request had none."""

    def __init__(self, method, path, body):
        self.method, self.path, self.body = method, path, body
        self.status, self.headers, self.answer = None, {}, b""
        self.ended = threading.Event()


class Recorder:
    def __init__(self, server_url):
        self.server = urllib.parse.urlsplit(server_url).netloc
        self.exchanges, self.refused_hosts = [], []
        self.listener = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler_of(self))
        self.base_url = f"http://127.0.0.1:{self.listener.server_port}"

    def __enter__(self):
        threading.Thread(target=self.listener.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *_):
        self.listener.shutdown()
        self.listener.server_close()

    def environment(self, home):
        """Of a client that keeps its files under home, and whose other traffic comes here to be refused."""
        kept = {name: os.environ[name] for name in ("PATH", "LANG", "TMPDIR") if name in os.environ}
        folders = {f"XDG_{kind}_HOME": str(home / kind.lower()) for kind in ("CONFIG", "DATA", "CACHE", "STATE")}
        names = ("http_proxy", "https_proxy", "all_proxy")
        proxies = {name: self.base_url for word in names for name in (word, word.upper())}
        return {**kept, **folders, **proxies, "HOME": str(home), "NO_PROXY": "127.0.0.1", "no_proxy": "127.0.0.1"}

    def posts(self, path):
        return [each for each in self.exchanges if (each.method, each.path.split("?")[0]) == ("POST", path)]

    def check_all_answered(self):
        """Every request had an answer of the 200s, and no other host was asked for. A client may leave before its last
        request, such as one for a title, is answered."""
        for each in list(self.exchanges):
            each.ended.wait(TIMEOUT_S)
        bad = [f"{each.method} {each.path}: {each.status} {each.answer[:300]!r}" for each in self.exchanges
               if each.status is None or not 200 <= each.status < 300]
        if bad or self.refused_hosts:
            raise AssertionError(f"refused: {bad}; other hosts: {self.refused_hosts}")


def handler_of(recorder):
    class Handler(http.server.BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, *_):
            pass

        def do_CONNECT(self):
            recorder.refused_hosts.append(self.path)
            self.send_error(403)

        def forward(self):
            if "://" in self.path:
                recorder.refused_hosts.append(self.path)
                self.send_error(403)
                return
            body = self.rfile.read(int(self.headers.get("content-length") or 0))
            exchange = Exchange(self.command, self.path, json.loads(body) if body else None)
            recorder.exchanges.append(exchange)
            headers = {name: value for name, value in self.headers.items() if name.lower() not in HOP_BY_HOP}
            server = http.client.HTTPConnection(recorder.server, timeout=TIMEOUT_S)
            try:
                server.request(self.command, self.path, body, headers)
                self.answer(exchange, server.getresponse())
            finally:
                exchange.ended.set()
                server.close()

        def answer(self, exchange, response):
            exchange.status, exchange.headers = response.status, dict(response.getheaders())
            self.send_response(response.status)
            for name, value in response.getheaders():
                if name.lower() not in HOP_BY_HOP:
                    self.send_header(name, value)
            self.send_header("connection", "close")  # which ends a body of unknown length
            self.end_headers()
            self.close_connection = True
            while chunk := response.read1(65536):
                exchange.answer += chunk
                self.wfile.write(chunk)

        do_GET = do_POST = do_PUT = do_DELETE = do_HEAD = forward

    return Handler

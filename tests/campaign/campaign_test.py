#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The campaigns: what they count, that they go on where they were stopped, that they see what should not be; and one short
slice of a real server. Usage: campaign_test.py BINARY
"""
import argparse
import contextlib
import http.server
import io
import json
import pathlib
import socket
import subprocess
import sys
import tempfile
import threading
import unittest
import unittest.mock

BINARY = pathlib.Path(sys.argv.pop(1)).resolve() if len(sys.argv) > 1 else None

from campaign import go_on, write_totals  # noqa: E402
from ledger import Ledger  # noqa: E402
from answers import answer_bytes  # noqa: E402
from connection import Connection, request_bytes, unchunked  # noqa: E402
from grpc_connection import GrpcConnection, WINDOW, frame, grpc_request  # noqa: E402
from grpc_mix import GENERATE, INFER  # noqa: E402
from mix import FAMILIES, requests  # noqa: E402
from mixed_load import MixedLoad, References, over_grpc  # noqa: E402
from protobuf import fields_of, message, varint  # noqa: E402
from slices import SLICES, grew, wait_until  # noqa: E402
from totals import Totals  # noqa: E402

HERE = pathlib.Path(__file__).resolve().parent


def stream(*documents):
    return b"".join(b"data: " + json.dumps(document).encode() + b"\n\n" for document in documents) + b"data: [DONE]\n\n"


COMPLETIONS = "/v1/completions"


class Answers(unittest.TestCase):
    whole = {"id": "1", "created": 5, "choices": [{"index": 0, "text": "ab", "finish_reason": "length", "logprobs": None}]}

    def same(self, path, one, other):
        """Each a body and whether it is a stream; both are whole answers."""
        found = [answer_bytes(path, body, streamed) for body, streamed in (one, other)]
        self.assertNotIn(None, found)
        return found[0] == found[1]

    def test_ids_and_times_do_not_count(self):
        other = {**self.whole, "id": "2", "created": 6}
        self.assertTrue(self.same(COMPLETIONS, (json.dumps(self.whole), False), (json.dumps(other), False)))

    def test_a_stream_is_what_its_pieces_are(self):
        pieces = [{"choices": [{"index": 0, "text": text, "finish_reason": end}]} for text, end in (("a", None), ("b", "length"))]
        self.assertTrue(self.same(COMPLETIONS, (stream(*pieces), True), (json.dumps(self.whole), False)))
        self.assertIsNone(answer_bytes(COMPLETIONS, stream(*pieces)[:-14], True), "one that was cut off")
        self.assertIsNone(answer_bytes(COMPLETIONS, stream(*pieces, {"error": {"code": "STALLED"}}), True))

    def test_texts_tokens_ends_and_scores_count(self):
        choice = self.whole["choices"][0]
        for change in ({"text": "aB"}, {"finish_reason": "stop"}, {"token_ids": [3]},
                       {"logprobs": {"tokens": ["a"], "token_logprobs": [-0.5], "top_logprobs": [{}]}}):
            other = {"choices": [{**choice, **change}]}
            self.assertFalse(self.same(COMPLETIONS, (json.dumps(other), False), (json.dumps(self.whole), False)), change)

    def test_responses(self):
        def body(text, tokens=2, status="completed"):
            return {"id": text, "status": status, "output": [{"id": "9", "type": "message", "content": text}],
                    "usage": {"output_tokens": tokens}}

        def ended(pieces, response):
            deltas = [{"type": "response.output_text.delta", "delta": piece} for piece in pieces]
            return stream(*deltas, {"type": "response.completed", "response": response}).removesuffix(b"data: [DONE]\n\n")

        path = "/v1/responses"
        self.assertTrue(self.same(path, (json.dumps(body("ab")), False), (json.dumps({**body("ab"), "id": "x"}), False)))
        for other in (body("aB"), body("ab", 3), body("ab", status="incomplete")):
            self.assertFalse(self.same(path, (json.dumps(body("ab")), False), (json.dumps(other), False)), other)
        self.assertTrue(self.same(path, (ended("ab", body("ab")), True), (ended(["ab"], body("ab")), True)))
        self.assertFalse(self.same(path, (ended("ab", body("ab")), True), (ended("aB", body("ab")), True)))
        self.assertIsNone(answer_bytes(path, ended("ab", body("ab", status="failed")), True))

    def test_messages(self):
        def ended(pieces, reason="end_turn"):
            deltas = [{"type": "content_block_delta", "index": 0, "delta": {"text": piece}} for piece in pieces]
            end = [{"type": "message_delta", "delta": {"stop_reason": reason}, "usage": {"output_tokens": 2}}, {"type": "message_stop"}]
            return stream({"type": "message_start"}, *deltas, *end).removesuffix(b"data: [DONE]\n\n")

        path = "/v1/messages"
        self.assertTrue(self.same(path, (ended("ab"), True), (ended(["ab"]), True)))
        for other in (ended("aB"), ended("ab", "max_tokens")):
            self.assertFalse(self.same(path, (ended("ab"), True), (other, True)))
        self.assertIsNone(answer_bytes(path, ended("ab")[:-40], True), "one that was cut off")

    def test_kserve(self):
        def ended(*pieces):
            documents = [{"text_output": piece, "finish_reason": "", "num_output_tokens": 1} for piece in pieces]
            documents[-1]["finish_reason"] = "length"
            return b"".join(b"data: " + json.dumps(document).encode() + b"\n\n" for document in documents)

        path = "/v2/models/demo/generate_stream"
        self.assertTrue(self.same(path, (ended("a", "b"), True), (ended("", "ab"), True)))
        self.assertFalse(self.same(path, (ended("a", "b"), True), (ended("a", "B"), True)))
        self.assertIsNone(answer_bytes(path, b'data: {"error": "x"}\n\n', True))

    def test_ollama(self):
        def ended(*pieces, count=2):
            documents = [{"message": {"content": piece}, "done": False} for piece in pieces]
            documents.append({"message": {"content": ""}, "done": True, "done_reason": "length", "prompt_eval_count": 3,
                              "eval_count": count, "total_duration": 9})
            return b"".join(json.dumps(document).encode() + b"\n" for document in documents)

        path = "/api/chat"
        self.assertTrue(self.same(path, (ended("a", "b"), True), (ended("ab"), True)))
        self.assertFalse(self.same(path, (ended("a", "b"), True), (ended("a", "B"), True)))
        self.assertFalse(self.same(path, (ended("ab"), True), (ended("ab", count=3), True)))
        for cut in (ended("a", "b").splitlines()[0], ended("ab")[:-5], b'{"error": "x"}\n'):
            self.assertIsNone(answer_bytes(path, cut, True))

    def test_calls_over_grpc(self):
        def framed(*messages):
            return b"".join(b"\0" + len(sent).to_bytes(4, "big") + sent for sent in messages)

        def ended(*pieces, reason=2, ttft=1.0, index=()):
            end = message((1, reason), (2, message((1, 5), (2, 3), (3, 2))), (3, message((2, ttft))))
            chunks = [message((1, piece), (2, [7]), *index) for piece in pieces]
            return framed(*chunks[:-1], chunks[-1] + message((6, end), (8, f"id {ttft}")))

        self.assertTrue(self.same(GENERATE, (ended("a", "b"), True), (ended("a", "b", ttft=2.0), True)), "ids and times do not count")
        for other in (ended("a", "B"), ended("ab"), ended("a", "b", reason=1), ended("a", "b", index=[(4, 1)])):
            self.assertFalse(self.same(GENERATE, (ended("a", "b"), True), (other, True)))
        scored = framed(message((3, message((1, 7), (2, -0.5))))) + ended("a", "b")
        self.assertFalse(self.same(GENERATE, (ended("a", "b"), True), (scored, True)), "a score")
        for cut in (b"", framed(message((1, "a"))), ended("a", "b")[:-3]):
            self.assertIsNone(answer_bytes(GENERATE, cut, True))
        self.assertTrue(self.same(INFER, (framed(message((3, "x"), (5, b"t"), (6, b"ab"))), True), (framed(message((5, b"t"), (6, b"ab"))), True)))
        self.assertFalse(self.same(INFER, (framed(message((6, b"aB"))), True), (framed(message((6, b"ab"))), True)))

    def test_every_profile_family_and_api_is_asked(self):
        asked = [(request.path, json.loads(request.body).get("model", "demo")) for request in requests() if not over_grpc(request)]
        self.assertGreaterEqual(len({model for _, model in asked if model.startswith("demo")}), 10)
        self.assertEqual({model.split("@")[0] for _, model in asked}, {"demo", *FAMILIES})
        self.assertEqual(len({path for path, _ in asked}), 9)
        self.assertEqual({request.path for request in requests() if over_grpc(request)}, {GENERATE, INFER})


class Protobuf(unittest.TestCase):
    """Bytes of protobuf.dev's encoding guide."""

    def test_fields_are_encoded_as_the_guide_does(self):
        self.assertEqual(message((1, 150)), b"\x08\x96\x01")
        self.assertEqual(message((2, "testing")), b"\x12\x07testing")
        self.assertEqual(message((3, message((1, 150)))), b"\x1a\x03\x08\x96\x01")
        self.assertEqual(message((6, [3, 270, 86942])), b"\x32\x06\x03\x8e\x02\x9e\xa7\x05")
        self.assertEqual(varint(-2), b"\xfe" + b"\xff" * 8 + b"\x01")
        self.assertEqual(message((1, 1.0)), b"\x0d\x00\x00\x80\x3f")

    def test_fields_are_read(self):
        self.assertEqual(fields_of(b"\x08\x96\x01\x12\x02ab\x0d\x00\x00\x80\x3f"), [(1, 150), (2, b"ab"), (1, b"\x00\x00\x80\x3f")])
        for bad in (b"\x12\x05ab", b"\x08", b"\x0f"):
            with self.assertRaises((ValueError, LookupError)):
                fields_of(bad)


class GrpcConnections(unittest.TestCase):
    def receive(self, sent):
        """What a connection whose first call gets these bytes takes them for, and what it sent."""
        with socket.create_server(("127.0.0.1", 0)) as listener:
            connection = GrpcConnection(f"127.0.0.1:{listener.getsockname()[1]}", 10)
            connection.send(grpc_request("/a/B", b"message", "host"))
            peer = listener.accept()[0]
            with peer:
                peer.sendall(sent)
                peer.shutdown(socket.SHUT_WR)
                answer = None
                try:
                    while answer is None:
                        answer = connection.receive()
                finally:
                    connection.close()
                return answer, b"".join(iter(lambda: peer.recv(1 << 16), b""))

    def test_calls_end_with_a_status(self):
        data, good, bad = frame(0, 0, 1, b"\0\0\0\0\1m"), *(frame(1, 5, 1, b"\x40\x0bgrpc-status\x01" + code) for code in (b"0", b"8"))
        for sent, answer in ((data + good, (200, b"\0\0\0\0\1m")), (good + frame(3, 0, 1, bytes(4)), (200, b"")), (bad, (0, bad[9:])),
                             (frame(3, 0, 1, bytes(4)), (0, b"reset: " + bytes(4)))):
            self.assertEqual(self.receive(sent)[0], answer)
        with self.assertRaises(ConnectionResetError):
            self.receive(data)

    def test_windows_are_opened_and_refilled(self):
        _, sent = self.receive(frame(1, 5, 1, b"\x40\x0bgrpc-status\x010"))
        self.assertIn(frame(8, 0, 0, WINDOW.to_bytes(4, "big")), sent)
        pieces = b"".join(frame(0, 0, 1, bytes(1 << 14)) for _ in range(65))
        _, sent = self.receive(pieces + frame(1, 5, 1, b"\x40\x0bgrpc-status\x010"))
        self.assertIn(frame(8, 0, 0, (1 << 20).to_bytes(4, "big")), sent)


class Changing(http.server.BaseHTTPRequestHandler):
    """A server whose answer is another one from the 300th on."""
    protocol_version = "HTTP/1.1"
    wbufsize = 1 << 16  # an answer in one packet
    asked = 0

    def do_POST(self):
        self.rfile.read(int(self.headers["Content-Length"]))
        Changing.asked += 1
        body = json.dumps({"choices": [{"index": 0, "text": "a" if Changing.asked < 300 else "b", "finish_reason": "length"}]}).encode()
        self.send_response(200)
        if Changing.asked % 2:
            self.send_header("Content-Length", str(len(body)))
        else:
            self.send_header("Transfer-Encoding", "chunked")
            body = b"%x\r\n%s\r\n%x\r\n%s\r\n0\r\n\r\n" % (5, body[:5], len(body) - 5, body[5:])
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


class FakeServer:
    def __init__(self, address):
        self.http = self.grpc = f"{address[0]}:{address[1]}"


class Load(unittest.TestCase):
    def setUp(self):
        Changing.asked = 0
        self.listener = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Changing)
        self.server = FakeServer(self.listener.server_address)
        threading.Thread(target=self.listener.serve_forever, daemon=True).start()

    def tearDown(self):
        self.listener.shutdown()
        self.listener.server_close()

    def test_an_answer_that_differs_is_seen(self):
        asked = [request for request in requests() if request.path == COMPLETIONS and not request.streamed]
        load = MixedLoad(self.server, References(self.server, asked), clients=8, seed=1)
        self.assertIsNotNone(wait_until(lambda: load.problems, 60))
        load.stop()
        self.assertIn("alone", load.problems[0])
        self.assertGreater(load.compared, 150)
        self.assertGreater(load.left, 0)

    def test_a_server_that_goes_away_is_seen(self):
        asked = [request for request in requests() if request.path == COMPLETIONS and not request.streamed]
        references = References(self.server, asked)
        self.listener.shutdown()
        self.listener.socket.close()
        load = MixedLoad(self.server, references, clients=2, seed=1)
        self.assertIsNotNone(wait_until(lambda: load.problems, 60))
        load.stop()
        self.assertIn("ConnectionRefusedError", load.problems[0])

    def test_pieces_of_an_answer(self):
        connection = Connection(self.server.http, 10)
        for _ in range(3):
            connection.send(request_bytes(COMPLETIONS, "{}", self.server.http))
            answer = None
            while answer is None:
                answer = connection.receive()
            self.assertEqual((answer[0], json.loads(answer[1])["choices"][0]["text"]), (200, "a"))
        connection.close()
        self.assertEqual(unchunked(b"1\r\na\r\n2;x=y\r\nbc\r\n0\r\n\r\n".replace(b";x=y", b"")), b"abc")
        self.assertIsNone(unchunked(b"5\r\n0\r\n\r\n"), "what looks like the last chunk is text")


class Sums(unittest.TestCase):
    def test_slices_add_up_and_half_a_line_is_left_out(self):
        with tempfile.TemporaryDirectory() as folder:
            ledger = Ledger(pathlib.Path(folder) / "deep" / "ledger.jsonl")
            self.assertEqual(SLICES["responses"].done(ledger), 0)
            ledger.add("responses", responses=5, seconds=2, problem="")
            ledger.add("soak", responses=7, seconds=3, problem="")
            with open(ledger.path, "a", encoding="utf-8") as file:
                file.write('{"kind": "soak", "resp')
            self.assertEqual(SLICES["responses"].done(ledger), 12)
            self.assertEqual(SLICES["soak"].done(ledger), 3)

    def test_the_table_of_the_tree_gets_each_slice_once(self):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "README.md"
            path.write_text("| responses | 1,000 responses | 1,000,000 | 2 | 2026-01-01 |\n| soak | 60 seconds | 28,800 | 0 | 2026-01-01 |\n")
            ledger = Ledger(pathlib.Path(folder) / "ledger.jsonl")
            ledger.add("responses", responses=5, problem="")
            ledger.add("soak", responses=7, seconds=3, problem="it grew")
            for _ in range(2):
                write_totals(ledger, Totals(path))
                self.assertEqual([(Totals(path).done(name), Totals(path).faults(name)) for name in ("responses", "soak")],
                                 [(1012, 2), (63, 1)])
            ledger.add("overload", seconds=5)
            with self.assertRaisesRegex(KeyError, "no row of overload"):
                write_totals(ledger, Totals(path))

    def test_slices_that_are_asked_for_run_beyond_the_goal(self):
        class Kind:
            goal, unit, unit_name, slice = 10, 1, "steps", 1

            @staticmethod
            def done(ledger):
                return sum(line["steps"] for line in ledger.lines("steps"))

            @staticmethod
            def run(build, ledger, size, figures):
                figures["steps"] = 1

        class Done:
            @staticmethod
            def done(name):
                return 10

        with tempfile.TemporaryDirectory() as folder, unittest.mock.patch.dict(SLICES, {"steps": Kind}), \
                contextlib.redirect_stdout(io.StringIO()) as out:
            for slices, goal, ran in ((-1, 0, 0), (2, 0, 2), (5, 13, 1), (3, 13, 0)):
                ledger = Ledger(pathlib.Path(folder) / "ledger.jsonl")
                before = Kind.done(ledger)
                go_on(ledger, Done, folder, "steps", argparse.Namespace(goal=goal, slice=0, slices=slices))
                self.assertEqual(Kind.done(ledger) - before, ran, (slices, goal))
            self.assertIn("steps: the goal of 10 steps is reached", out.getvalue())

    def test_every_campaign_has_its_row(self):
        self.assertEqual(set(Totals().rows), set(SLICES))
        for name, row in Totals().rows.items():
            self.assertEqual(row[4], f"{SLICES[name].goal:,}", name)

    def test_what_grows_is_named(self):
        warm = {"rss": 100 << 20, "heap": 60 << 20, "threads": 20, "descriptors": 30}
        self.assertEqual(grew(warm, {"rss": 110 << 20, "heap": 61 << 20, "threads": 22, "descriptors": 31}), "")
        self.assertIn("heap", grew(warm, {**warm, "heap": 65 << 20}))
        self.assertIn("rss", grew(warm, {**warm, "rss": 130 << 20}))
        self.assertIn("threads", grew(warm, {**warm, "threads": 40}))
        self.assertIn("descriptors", grew(warm, {**warm, "descriptors": 40}))


@unittest.skipIf(BINARY is None, "needs the binary")
class Slice(unittest.TestCase):
    def test_a_short_one_holds(self):
        with tempfile.TemporaryDirectory() as folder:
            (pathlib.Path(folder) / "dunlin").symlink_to(BINARY)
            totals = pathlib.Path(folder) / "totals.md"
            totals.write_text("| responses | 3 responses | 1,000,000 | 0 | 2026-01-01 |\n")
            done = subprocess.run([sys.executable, HERE / "campaign.py", folder, "responses", "--goal", "1000000", "--slice", "6",
                                   "--slices", "1", "--totals", totals], capture_output=True, text=True, check=False)
            self.assertEqual(done.returncode, 0, done.stderr)
            line = Ledger(pathlib.Path(folder) / "campaign" / "ledger.jsonl").lines("responses")[0]
            self.assertEqual((line["problem"], line["alarms"]), ("", 0))
            self.assertEqual(len(line["rounds_s_rss_heap_kib"][-1]), 3)
            self.assertGreater(line["responses"], 20)
            table = subprocess.run([sys.executable, HERE / "campaign.py", folder, "table", "--totals", totals], capture_output=True, text=True, check=True)
            self.assertIn(f"| responses | {3 + line['responses']:,} responses | 1,000,000 | 0 |", table.stdout)


if __name__ == "__main__":
    unittest.main()

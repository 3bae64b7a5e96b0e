#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The campaigns: what they count, that they go on where they were stopped, that they see what should not be; and one short
slice of a real server. Usage: campaign_test.py BINARY
"""
import http.server
import json
import pathlib
import subprocess
import sys
import tempfile
import threading
import unittest

BINARY = pathlib.Path(sys.argv.pop(1)).resolve() if len(sys.argv) > 1 else None

from campaign import write_totals  # noqa: E402
from ledger import Ledger  # noqa: E402
from mix import answer_bytes, requests  # noqa: E402
from mixed_load import MixedLoad, References  # noqa: E402
from slices import SLICES, grew, wait_until  # noqa: E402
from totals import Totals  # noqa: E402

HERE = pathlib.Path(__file__).resolve().parent


def stream(*documents):
    return b"".join(b"data: " + json.dumps(document).encode() + b"\n\n" for document in documents) + b"data: [DONE]\n\n"


class Answers(unittest.TestCase):
    whole = {"id": "1", "created": 5, "choices": [{"index": 0, "text": "ab", "finish_reason": "length", "logprobs": None}]}

    def test_ids_and_times_do_not_count(self):
        other = {**self.whole, "id": "2", "created": 6}
        self.assertEqual(answer_bytes(json.dumps(self.whole), False), answer_bytes(json.dumps(other), False))

    def test_a_stream_is_what_its_pieces_are(self):
        pieces = [{"choices": [{"index": 0, "text": text, "finish_reason": end}]} for text, end in (("a", None), ("b", "length"))]
        self.assertEqual(answer_bytes(stream(*pieces), True), answer_bytes(json.dumps(self.whole), False))
        self.assertIsNone(answer_bytes(stream(*pieces)[:-14], True), "one that was cut off")
        self.assertIsNone(answer_bytes(stream(*pieces, {"error": {"code": "STALLED"}}), True))

    def test_texts_ends_and_scores_count(self):
        choice = self.whole["choices"][0]
        for change in ({"text": "aB"}, {"finish_reason": "stop"},
                       {"logprobs": {"tokens": ["a"], "token_logprobs": [-0.5], "top_logprobs": [{}]}}):
            other = {"choices": [{**choice, **change}]}
            self.assertNotEqual(answer_bytes(json.dumps(other), False), answer_bytes(json.dumps(self.whole), False), change)

    def test_every_profile_is_asked(self):
        models = {json.loads(body)["model"] for _, body in requests()}
        self.assertGreaterEqual(len(models), 10)


class Changing(http.server.BaseHTTPRequestHandler):
    """A server whose answer is another one from the 300th on."""
    protocol_version = "HTTP/1.1"
    asked = 0

    def do_POST(self):
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        Changing.asked += 1
        choice = {"index": 0, "text": "a" if Changing.asked < 300 else "b", "finish_reason": "length"}
        body = stream({"choices": [choice]}) if asked.get("stream") else json.dumps({"choices": [choice]}).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


class FakeServer:
    def __init__(self, address):
        self.address = address

    def connect(self):
        return http.client.HTTPConnection(*self.address, timeout=30)


class Load(unittest.TestCase):
    def test_an_answer_that_differs_is_seen(self):
        listener = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Changing)
        threading.Thread(target=listener.serve_forever, daemon=True).start()
        server = FakeServer(listener.server_address)
        load = MixedLoad(server, References(server), clients=3, seed=1)
        self.assertIsNotNone(wait_until(lambda: load.problems, 60))
        load.stop()
        listener.shutdown()
        listener.server_close()
        self.assertIn("alone", load.problems[0])
        self.assertGreater(load.compared, 150)


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

    def test_every_campaign_has_its_row(self):
        self.assertEqual(set(Totals().rows), set(SLICES))
        for name, row in Totals().rows.items():
            self.assertEqual(row[4], f"{SLICES[name].goal:,}", name)

    def test_what_grows_is_named(self):
        warm = {"rss": 100 << 20, "threads": 20, "descriptors": 30}
        self.assertEqual(grew(warm, {"rss": 110 << 20, "threads": 22, "descriptors": 31}), "")
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
            self.assertGreater(line["responses"], 20)
            table = subprocess.run([sys.executable, HERE / "campaign.py", folder, "table", "--totals", totals], capture_output=True, text=True, check=True)
            self.assertIn(f"| responses | {3 + line['responses']} responses | 1,000,000 | 0 |", table.stdout)


if __name__ == "__main__":
    unittest.main()

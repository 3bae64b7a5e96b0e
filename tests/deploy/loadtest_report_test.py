# SPDX-License-Identifier: Apache-2.0
"""Tests of deploy/loadtest/report.py on results that are written here."""

import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

SCRIPT = pathlib.Path(__file__).resolve().parents[2] / "deploy/loadtest/report.py"


class Report(unittest.TestCase):
    def setUp(self):
        temporary = tempfile.TemporaryDirectory()
        self.addCleanup(temporary.cleanup)
        self.folder = pathlib.Path(temporary.name)

    def write(self, name, ended, result, body=None):
        path = self.folder / f"{name}.json"
        path.write_text(json.dumps(result), encoding="utf-8")
        os.utime(path, (ended, ended))
        if body is not None:
            (self.folder / f"{name}.html").write_text(f"<html><body>{body}</body></html>", encoding="utf-8")

    def run_script(self, *arguments):
        return subprocess.run([sys.executable, SCRIPT, self.folder, *arguments], capture_output=True, text=True, check=False)

    def page(self):
        done = self.run_script()
        self.assertEqual(done.returncode, 0, done.stderr)
        return (self.folder / "report.html").read_text(encoding="utf-8")

    def row(self, name):
        cells = re.search(rf'<tr><td><a href="#{name}">.*?</tr>', self.page(), re.S)[0]
        return re.findall(r"<td[^>]*>(?:<a[^>]*>)?([^<]*)", cells)

    def test_a_row_shows_the_figures_of_its_result(self):
        self.write("ramp", 1, {"request_throughput": 12.34, "output_throughput": 567.8, "median_ttft_ms": 1.25, "completed": 9,
                               "refused": 2, "failed": 0, "max_concurrency": 8,
                               "server": {"growth": {"rss_bytes": 2500000}, "after": {"kv_pages_used": 0}}})
        self.assertEqual(self.row("ramp"), ["ramp", "8 at a time", "12.3", "568", "1.2", "", "", "", "9", "2", "", "0", "", "2.5", "0"])

    def test_the_rate_of_an_open_loop_is_told(self):
        self.write("open", 1, {"request_throughput": 1, "request_rate": 20.0, "arrivals": "poisson", "max_concurrency": None})
        self.assertEqual(self.row("open")[1], "20.0 requests/s, poisson")

    def test_failures_and_pages_left_are_marked(self):
        self.write("good", 1, {"request_throughput": 1, "failed": 0})
        self.assertNotIn('<td class="fault">', self.page())
        self.write("bad", 2, {"request_throughput": 1, "failed": 3, "server": {"after": {"kv_pages_used": 1}}})
        self.assertEqual(re.findall(r'<td class="fault">(\d+)</td>', self.page()), ["3", "1"])

    def test_results_come_in_the_order_in_which_they_ended_with_their_pages(self):
        self.write("b_first", 1, {"request_throughput": 1}, "<h1>one</h1><svg></svg>")
        self.write("a_second", 2, {"request_throughput": 1}, "<h1>two</h1>")
        page = self.page()
        self.assertLess(page.index('href="#b_first"'), page.index('href="#a_second"'))
        self.assertIn('<section id="b_first"><h2>one</h2><svg></svg></section>', page)
        self.assertIn('<section id="a_second"><h2>two</h2></section>', page)

    def test_other_files_are_left_out_and_names_are_escaped(self):
        self.write("keys", 1, {"keys": []})
        (self.folder / "broken.json").write_text("{", encoding="utf-8")
        self.write("a&b", 2, {"request_throughput": 1})
        page = self.page()
        self.assertIn("Results: 1.", page)
        self.assertIn('href="#a&amp;b">a&amp;b</a>', page)

    def test_a_folder_without_results_is_an_error(self):
        done = self.run_script()
        self.assertEqual(done.returncode, 1)
        self.assertIn("has no result", done.stderr)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])

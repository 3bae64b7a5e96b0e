#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The table of executions: it has every target, its sum is what the docs say, and runs are added to it once."""
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

import tally
from ledger import Ledger

TARGETS = re.findall(r"^DUNLIN_FUZZ_TARGET\((\w+),", (tally.HERE / "targets.inc").read_text(), re.M)
README = (tally.HERE / "README.md").read_text()
DOCS = (tally.ROOT / "docs/reliability.md").read_text()


class Table(unittest.TestCase):
    def test_it_has_each_target(self):
        self.assertGreater(len(TARGETS), 30)
        self.assertEqual(sorted(tally.rows(README)), sorted(TARGETS))

    def test_its_sum_is_what_the_docs_say(self):
        total = sum(executions for executions, _ in tally.rows(README).values())
        self.assertEqual([total], [tally.number(found.split()[0]) for found in tally.SUM.findall(README)])
        self.assertEqual([total], [tally.number(found.split()[0]) for found in tally.DOCS_SUM.findall(DOCS)])

    def test_runs_are_added(self):
        before = tally.rows(README)
        lines = [{"target": "gguf", "executions": 1000, "edges": 5000, "date": "2031-01-02"},
                 {"target": "gguf", "executions": 1, "edges": 0, "date": "2031-01-01"}]
        readme, total = tally.with_lines(README, lines)
        after = tally.rows(readme)
        self.assertEqual(after["gguf"], (before["gguf"][0] + 1001, 5000))
        self.assertEqual({name: row for name, row in after.items() if name != "gguf"},
                         {name: row for name, row in before.items() if name != "gguf"})
        self.assertIn(f"{total:,} in all (2031-01-02", readme)

    def test_an_unknown_target_is_an_error(self):
        with self.assertRaises(KeyError):
            tally.with_lines(README, [{"target": "nobody", "executions": 1, "edges": 1, "date": "2031-01-02"}])

    def test_runs_that_were_written_do_not_count_again(self):
        with tempfile.TemporaryDirectory() as folder:
            ledger = Ledger(pathlib.Path(folder) / "campaign" / "ledger.jsonl")
            ledger.add("fuzz", target="gguf", executions=7, edges=1, seconds=1, status=0)
            ledger.add("tallied", lines=1)
            ledger.add("fuzz", target="pickle", executions=5, edges=1, seconds=1, status=0)
            said = subprocess.run([sys.executable, tally.HERE / "tally.py", folder], capture_output=True, text=True, check=True).stdout
        total = sum(executions for executions, _ in tally.rows(README).values())
        self.assertIn(f"1 runs that the table had not, {total + 5:,} executions", said)


if __name__ == "__main__":
    unittest.main()

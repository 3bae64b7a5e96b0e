#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What run.py makes of libFuzzer's end of a run."""

import pathlib
import tempfile
import unittest

import run


class Findings(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.artifact = pathlib.Path(folder.name) / "regex_timeout-12ab"
        self.artifact.write_text("a+")
        self.log = f"x; Test unit written to {self.artifact}\nSUMMARY: libFuzzer: timeout\n"
        self.program = pathlib.Path(folder.name) / "program"

    def is_finding(self, script, log=None):
        self.program.write_text("#!/bin/sh\n" + script + "\n")
        self.program.chmod(0o700)
        return run.is_finding(self.program, log or self.log, seconds=1)

    def test_an_input_that_takes_the_processor_is_one(self):
        self.assertTrue(self.is_finding("while :; do :; done"))
        self.assertTrue(self.artifact.exists())

    def test_an_input_that_fails_alone_is_one(self):
        self.assertTrue(self.is_finding("exit 77"))

    def test_an_input_that_waits_for_the_processor_is_none(self):
        self.assertFalse(self.is_finding('test "$(cat "$1")" = a+'))
        self.assertFalse(self.artifact.exists())

    def test_a_crash_is_left_as_it_is(self):
        self.assertTrue(self.is_finding("exit 0", "Test unit written to build/findings/regex_crash-12ab\n"))


if __name__ == "__main__":
    unittest.main()

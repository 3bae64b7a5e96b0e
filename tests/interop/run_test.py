#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The runner with clients made for the test. Usage: run_test.py DUNLIN_BINARY. Standard library only, no network."""

import contextlib
import io
import pathlib
import sys
import tempfile
import unittest

BINARY = str(pathlib.Path(sys.argv.pop(1)).resolve())

import run

HERE = pathlib.Path(__file__).resolve().parent
SPEAKS = """
import sys
sys.path.insert(0, "%s")
import json, urllib.request
from checks import BASE_URL, ENCODER, MODEL, Checks, metric, same
checks = Checks()

@checks.add("models")
def models():
    with urllib.request.urlopen(BASE_URL + "/v1/models", timeout=10) as reply:
        same([model["id"] for model in json.load(reply)["data"]], [MODEL, ENCODER])
    same(metric("vllm:num_requests_running"), 0)

@checks.add("async")
async def coroutine():
    pass
""" % HERE


class RunTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.folder = pathlib.Path(folder.name)
        (cls.folder / "requirements").mkdir()
        run.HERE = cls.folder

    def run_client(self, program, *arguments, requirements="", slow=False):
        """Exit status and output of the runner with one client."""
        (self.folder / "client.py").write_text(program)
        (self.folder / "requirements/client.txt").write_text(requirements)
        output = io.StringIO()
        with contextlib.redirect_stdout(output):
            status = run.main([BINARY, "--work", str(self.folder / "work"), *arguments],
                              [run.Client("test-client", "client.py", slow, 60)])
        return status, output.getvalue()

    def test_outcomes_of_checks_are_rows_and_the_exit_status(self):
        status, output = self.run_client(SPEAKS + "checks.run()")
        self.assertEqual(status, 0, output)
        self.assertRegex(output, r"test-client +models +ok")
        self.assertIn("2 checks of 1 clients, 0 failed", output)
        failing = '@checks.add("fails")\ndef fails():\n    same(1, 2, "number")\n'
        status, output = self.run_client(SPEAKS + failing + "checks.run()")
        self.assertEqual(status, 1)
        self.assertRegex(output, r"test-client +fails +FAILED: AssertionError: number is 1, expected 2")
        status, output = self.run_client(SPEAKS + "checks.run()\nsys.exit(3)")
        self.assertEqual(status, 1)
        self.assertIn("FAILED: exit status is 3", output)
        status, output = self.run_client("")
        self.assertEqual(status, 1, "a program without a check checks nothing")

    def test_a_client_that_cannot_be_installed_fails_unless_it_may_be_missing(self):
        absent = {"requirements": str(self.folder / "absent.whl")}
        status, output = self.run_client(SPEAKS + "checks.run()", **absent)
        self.assertEqual(status, 1)
        self.assertRegex(output, r"test-client +install +FAILED: .*absent\.whl")
        status, output = self.run_client(SPEAKS + "checks.run()", "--allow-missing", **absent)
        self.assertEqual(status, 0)
        self.assertRegex(output, r"test-client +install +missing: ")

    def test_slow_clients_run_only_where_they_are_asked_for(self):
        status, output = self.run_client(SPEAKS + "checks.run()", slow=True)
        self.assertIn("0 checks of 0 clients", output)
        for asked in (["--full"], ["--only", "test-client"]):
            status, output = self.run_client(SPEAKS + "checks.run()", *asked, slow=True)
            self.assertIn("2 checks of 1 clients, 0 failed", output)
            self.assertEqual(status, 0)


if __name__ == "__main__":
    unittest.main(verbosity=2)

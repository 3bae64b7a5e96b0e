# SPDX-License-Identifier: Apache-2.0
"""Turns of a measuring process, with small processes in a worker's place."""

import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))

import turns  # noqa: E402

TWO_TURNS = ("import sys, worker\n"
             "for i in range(2):\n"
             "    worker.turn()\n"
             "    worker.say(metric=f'm{i}', value=i)\n")


def run(script, gate=(), seconds=30.0, whole=False, gate_seconds=0.0):
    gate_under_test = turns.Gate(list(gate), gate_seconds)
    try:
        return turns.run([sys.executable, "-c", script], gate_under_test, seconds, dict(os.environ, PYTHONPATH=str(HERE)),
                         subprocess.DEVNULL, whole)
    finally:
        gate_under_test.close()


class Turns(unittest.TestCase):
    def test_answers_come_turn_by_turn(self):
        self.assertEqual(run(TWO_TURNS), ([{"metric": "m0", "value": 0}, {"metric": "m1", "value": 1}], None))

    def test_each_turn_is_taken_inside_the_gate(self):
        with tempfile.NamedTemporaryFile() as log:
            gate = ["sh", "-c", f'echo in >> {log.name}; "$@"; echo out >> {log.name}', "gate"]
            answers, error = run(TWO_TURNS, gate)
            self.assertEqual((len(answers), error), (2, None))
            self.assertEqual(log.read().split(), [b"in", b"out", b"in", b"out"])

    def test_turns_that_follow_soon_share_a_gate(self):
        with tempfile.NamedTemporaryFile() as log:
            gate = ["sh", "-c", f'echo in >> {log.name}; "$@"; echo out >> {log.name}', "gate"]
            answers, error = run(TWO_TURNS, gate, gate_seconds=60.0)
            self.assertEqual((len(answers), error), (2, None))
            self.assertEqual(log.read().split(), [b"in", b"out"])

    def test_a_whole_process_takes_one_turn(self):
        with tempfile.NamedTemporaryFile() as log:
            gate = ["sh", "-c", f'echo in >> {log.name}; "$@"; echo out >> {log.name}', "gate"]
            answers, error = run("print('{\"a\": 1}'); print('{\"a\": 2}')", gate, whole=True)
            self.assertEqual((answers, error), ([{"a": 1}, {"a": 2}], None))
            self.assertEqual(log.read().split(), [b"in", b"out"])

    def test_a_figure_from_a_gate_that_closed_does_not_count(self):
        answers, error = run("import time, worker\nworker.turn()\ntime.sleep(1)\nworker.say(metric='m')\n",
                             ["timeout", "0.2"])
        self.assertEqual((answers, error), ([], "the gate closed during a measurement"))

    def test_a_whole_process_that_outlived_its_gate_does_not_count(self):
        _, error = run("import time\ntime.sleep(1)\nprint('{}')", ["timeout", "0.2"], whole=True)
        self.assertEqual(error, "the gate closed during a measurement")

    def test_a_process_that_takes_too_long_is_ended(self):
        _, error = run("import time\ntime.sleep(60)", seconds=0.3)
        self.assertEqual(error, "ended after 0 s")

    def test_a_failed_process_says_so_and_keeps_what_it_measured(self):
        answers, error = run("print('{\"a\": 1}', flush=True)\nraise SystemExit(3)")
        self.assertEqual((answers, error), ([{"a": 1}], "exit code 3, see workers.log"))


if __name__ == "__main__":
    unittest.main()

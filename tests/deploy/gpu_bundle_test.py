#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The bundle that checks a GPU packs, unpacks anywhere, and its check runs there from end to end, on the fake module in
place of the CUDA one. Usage: gpu_bundle_test.py BUILD_DIR
"""
import os
import pathlib
import subprocess
import sys
import tarfile
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = sys.argv.pop(1) if len(sys.argv) > 1 else str(ROOT / "build/release")
ROWS = ("operations", "attention, pages", "attention, dense grid", "goldens, greedy tokens", "goldens, all profiles",
        "500 mixes, same bits", "greedy CPU = GPU", "batch invariance", "bench, table 1", "bench, table 2",
        "bench, table 3", "bench, table 4", "bench, gemm", "bench, gemv", "bench, tuned products", "bench, decode",
        "bench, prefill", "bench, encoder", "bench, model")
DEVICE = "cuda_fake_cublas"


class GpuBundle(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.home = pathlib.Path(cls.folder.name) / "dunlin-gpu-check"
        done = subprocess.run([str(ROOT / "deploy/gpu_bundle.sh"), BUILD, cls.folder.name], capture_output=True, text=True,
                              env=dict(os.environ, FAKE="1"))
        if done.returncode != 0:
            raise AssertionError(done.stdout + done.stderr)
        cls.file = pathlib.Path(done.stdout.split("\n")[-2])
        with tarfile.open(cls.file) as archive:
            archive.extractall(cls.folder.name)

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    def check(self, out, **environment):
        return subprocess.run([str(self.home / "tests/gpu_check.sh"), "--rehearse", "--out", str(self.home / out)],
                              capture_output=True, text=True, env=dict(os.environ, **environment), cwd=self.folder.name)

    def test_it_is_small_and_its_libraries_come_from_its_own_folder(self):
        self.assertLess(self.file.stat().st_size, 60_000_000)
        script = 'here=$1/tests; shift; . "$here/gpu_folder.sh"; ldd "$here/device_goldens_test"'
        loaded = subprocess.run(["bash", "-euc", script, "bash", str(self.home)], capture_output=True, text=True,
                                check=True).stdout
        paths = [line.split()[2] for line in loaded.splitlines() if "=> /" in line]
        ours = [path for path in paths if "libstdc++" in path or "libabsl" in path]
        self.assertTrue(ours)
        self.assertEqual({path for path in ours if not path.startswith(str(self.home))}, set())

    def test_every_row_passes_and_leaves_its_log(self):
        done = self.check("results")
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        table = done.stdout.splitlines()
        self.assertIn("cuda (fake", table[0])
        self.assertEqual(tuple(line[:24].strip() for line in table[1:]), ROWS)
        self.assertEqual({line[25:29] for line in table[1:]}, {"pass"})
        logs = self.home / "results" / DEVICE
        self.assertEqual((logs / "table.txt").read_text(), done.stdout)
        self.assertEqual(len(list(logs.glob("*.log"))), 6 + 2 + 1)
        self.assertEqual(len(list(logs.glob("*.jsonl"))), sum(row.startswith("bench,") for row in ROWS))

    def test_without_a_device_it_is_skipped_with_the_reason(self):
        done = self.check("none", DUNLIN_FAKE_CUDA_OPEN_ERROR="no CUDA driver")
        self.assertEqual(done.returncode, 77, done.stdout + done.stderr)
        self.assertIn("skipped: device cuda cannot be opened: no CUDA driver", done.stdout)

    def test_a_device_that_fails_is_no_device_that_is_missing(self):
        fails = self.home / "fails"
        fails.write_text("now")
        done = self.check("failed", DUNLIN_FAKE_CUDA_FAIL_FILE=str(fails))
        self.assertEqual(done.returncode, 1, done.stdout + done.stderr)
        self.assertIn("FAIL", done.stdout)
        self.assertIn("device error", done.stdout)


if __name__ == "__main__":
    unittest.main()

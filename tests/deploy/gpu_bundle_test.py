#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The bundle that checks a GPU packs, unpacks anywhere, and its check runs there from end to end, on the fake module in
place of the CUDA one. Where this Python has PyTorch, it runs beside ours, on the CPU.
Usage: gpu_bundle_test.py BUILD_DIR
"""
import importlib.util
import json
import os
import pathlib
import signal
import subprocess
import sys
import tarfile
import tempfile
import time
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = sys.argv.pop(1) if len(sys.argv) > 1 else str(ROOT / "build/release")
sys.path.insert(0, str(ROOT / "tests/gpu_check"))

import rows

# The bundle's programs must not overwrite the results of the same programs in `make test`.
os.environ.pop("GTEST_OUTPUT", None)

DEVICE = "cuda_fake"
HAS_TORCH = importlib.util.find_spec("torch") is not None


class GpuBundle(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.home = pathlib.Path(cls.folder.name) / "dunlin-gpu-check"
        done = subprocess.run([str(ROOT / "deploy/gpu_bundle.sh"), BUILD, cls.folder.name], capture_output=True,
                              text=True, env=dict(os.environ, FAKE="1"))
        if done.returncode != 0:
            raise AssertionError(done.stdout + done.stderr)
        cls.file = pathlib.Path(done.stdout.split("\n")[-2])
        with tarfile.open(cls.file) as archive:
            archive.extractall(cls.folder.name)

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    def command(self, out, *options, script="gpu_check.sh"):
        return [str(self.home / "tests" / script), "--rehearse", "--python", sys.executable, "--out",
                str(self.home / out), *options]

    def check(self, out, *options, script="gpu_check.sh", **environment):
        return subprocess.run(self.command(out, *options, script=script), capture_output=True, text=True,
                              env=dict(os.environ, **environment), cwd=self.folder.name)

    def verdicts(self, out, device=DEVICE):
        lines = map(json.loads, (self.home / out / device / "results.jsonl").read_text().splitlines())
        return {line["row"]: line["verdict"] for line in lines if line["kind"] == "row"}

    def packed(self, out, device=DEVICE):
        with tarfile.open(self.home / out / f"{device}.tar.gz") as archive:
            return {name.removeprefix(f"{device}/") for name in archive.getnames()}

    def left_running(self):
        """Command lines of processes that still run from the bundle."""
        found = []
        for file in pathlib.Path("/proc").glob("[0-9]*/cmdline"):
            try:
                line = file.read_bytes().replace(b"\0", b" ").decode(errors="replace")
            except OSError:
                continue
            if line.startswith(str(self.home)):
                found.append(line)
        return found

    def test_it_is_small_and_its_libraries_come_before_the_callers(self):
        self.assertLess(self.file.stat().st_size, 64 << 20)
        script = ('here=$1/tests; shift; . "$here/gpu_folder.sh"; echo "$LD_LIBRARY_PATH, $caller_libraries"; '
                  'ldd "$here/device_models_test"')
        done = subprocess.run(["bash", "-euc", script, "bash", str(self.home)], capture_output=True, text=True,
                              check=True, env=dict(os.environ, LD_LIBRARY_PATH="/of/the/caller"))
        first, *loaded = done.stdout.splitlines()
        self.assertEqual(first, f"{self.home}/lib:/of/the/caller, /of/the/caller")
        paths = [line.split()[2] for line in loaded if "=> /" in line]
        ours = [path for path in paths if "libstdc++" in path or "libabsl" in path]
        self.assertTrue(ours)
        self.assertEqual({path for path in ours if not path.startswith(str(self.home))}, set())

    def test_every_row_passes_in_every_part_and_the_tar_has_all_of_it(self):
        for part in ("1", "2", "3"):
            done = self.check("results", "--part", part)
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
            self.assertIn("cuda (fake", done.stdout.splitlines()[0])
            self.assertTrue(done.stdout.splitlines()[-1].endswith(f"{DEVICE}.tar.gz"), done.stdout)
        done = self.check("results", script="gpu_sanitize.sh")
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        expected = {"device": "pass", **{row.name: "pass" for row in rows.ROWS}}
        if not HAS_TORCH:
            expected["served_logits"] = "note"
        self.assertEqual(self.verdicts("results"), expected)
        packed = self.packed("results")
        self.assertLessEqual({"summary.md", "table.txt", "results.jsonl", "operations.log", "table_1.jsonl",
                              "server_cuda.log", "served_load.json", "sanitize_racecheck.attention.log"}, packed)
        summary = (self.home / "results" / DEVICE / "summary.md").read_text()
        for name in expected:
            self.assertIn(f"| {name} | {expected[name]} |", summary)
        self.assertIn("A rehearsal on the fake module", summary)
        self.assertIn("PyTorch: " if HAS_TORCH else "PyTorch: none: ModuleNotFoundError", summary)

    def test_the_program_takes_what_the_rows_for_a_gpu_ask_of_it(self):
        environment = dict(os.environ, DUNLIN_FAKE_CUDA_OPEN_ERROR="not here", LD_LIBRARY_PATH=f"{self.home}/lib")
        for row in rows.ROWS:
            if row.kind == "bench":
                command = [self.home / "dunlin", "bench", *row.gpu[0].split(), "--device", "cuda", "--cuda-module",
                           self.home / "tests/libfake_cuda.so", "--json"]
                done = subprocess.run(command, capture_output=True, text=True, env=environment)
                self.assertIn("device cuda cannot be opened: not here", done.stderr, row.name)
            elif row.kind in ("gtest", "sanitizer") and (self.home / "libdunlin_cuda.so").exists():
                pairs = [row.gpu] if row.kind == "gtest" else zip(
                    ("kernels_device_ops_test", "kernels_device_attention_test"), row.gpu[1:])
                for program, pattern in pairs:
                    listing = [self.home / "tests" / program, "--gtest_list_tests", f"--gtest_filter={pattern}"]
                    done = subprocess.run(listing, capture_output=True, text=True, env=environment)
                    self.assertRegex(done.stdout, "(?m)^  [A-Z]", f"{row.name}: {pattern}")

    def test_a_device_that_cannot_be_opened_is_a_failure_with_its_reason(self):
        done = self.check("none", DUNLIN_FAKE_CUDA_OPEN_ERROR="no CUDA driver")
        self.assertEqual(done.returncode, 1, done.stdout + done.stderr)
        self.assertRegex(done.stdout, r"(?m)^device +FAIL .* device cuda cannot be opened: no CUDA driver$")
        self.assertEqual(self.verdicts("none", "no_device"), {"device": "FAIL"})
        self.assertIn("device.log", self.packed("none", "no_device"))

    def test_a_device_that_fails_is_named_with_its_reason(self):
        fails = self.home / "fails"
        fails.write_text("now")
        done = self.check("failed", "--rows", "operations,table_1", DUNLIN_FAKE_CUDA_FAIL_FILE=str(fails))
        self.assertEqual(done.returncode, 1, done.stdout + done.stderr)
        self.assertIn("FAIL", done.stdout)
        self.assertIn("device error", done.stdout)

    def test_a_part_stops_when_its_time_is_over_and_says_what_did_not_begin(self):
        done = self.check("late", "--rows", "operations,served_load,table_2", "--part-seconds", "4")
        self.assertEqual(done.returncode, 1, done.stdout + done.stderr)
        self.assertEqual(self.verdicts("late")["table_2"], "not begun", done.stdout)
        self.assertIn("summary.md", self.packed("late"))

    def test_a_signal_ends_it_with_a_summary_and_a_tar(self):
        process = subprocess.Popen(self.command("stopped", "--rows", "operations,served_load,table_2"), text=True,
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=self.folder.name)
        for line in process.stderr:
            if line.startswith("operations "):
                break
        time.sleep(0.5)
        process.send_signal(signal.SIGINT)
        out, errors = process.communicate(timeout=60)
        self.assertEqual(process.returncode, 1, out + errors)
        self.assertEqual(self.verdicts("stopped"), {"device": "pass", "operations": "pass", "served_load": "FAIL",
                                                    "table_2": "not begun"})
        self.assertIn("summary.md", self.packed("stopped"))
        self.assertEqual(self.left_running(), [])

    def test_cublas_comes_from_site_packages_unless_the_caller_names_one(self):
        library = pathlib.Path(BUILD).resolve() / "tests/libcublaslt_130000.so"
        if not library.exists():
            self.skipTest("the stand-in cuBLASLt was not built")
        packages = self.home / "site/nvidia/cu13/lib"
        packages.mkdir(parents=True)
        (packages / "libcublasLt.so.13").symlink_to(library)
        done = self.check("packages", "--rows", "operations", PYTHONPATH=str(self.home / "site"))
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertIn(f'cuda (fake, cublas "{packages}/libcublasLt.so.13")', done.stdout)
        self.assertIn("version 130000 (site-packages)", done.stderr)
        done = self.check("named", "--rows", "operations", PYTHONPATH=str(self.home / "site"), CUBLAS=str(library))
        self.assertIn(f'cuda (fake, cublas "{library}")', done.stdout)
        self.assertIn("version 130000 (as asked for)", done.stderr)


if __name__ == "__main__":
    unittest.main()

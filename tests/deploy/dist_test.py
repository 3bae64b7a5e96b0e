#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A dist packs, unpacks anywhere and serves from there with its own libraries. (deploy/verify_dist.sh shows more, in a
bare system, and needs root.) Usage: dist_test.py BUILD_DIR
"""
import json
import os
import pathlib
import re
import subprocess
import sys
import tarfile
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = sys.argv.pop(1) if len(sys.argv) > 1 else str(ROOT / "build/release")
GLIBC = re.compile(r"/(ld-linux-(?:x86-64|aarch64)|libc|libm|libdl|librt|libpthread|libresolv)\.so")


class Dist(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        done = subprocess.run([str(ROOT / "deploy/dist.sh"), BUILD, cls.folder.name], capture_output=True, text=True)
        if done.returncode != 0:
            raise AssertionError(done.stdout + done.stderr)
        cls.file = pathlib.Path(done.stdout.split("\n")[-2])
        with tarfile.open(cls.file) as archive:
            cls.members = archive.getmembers()
            archive.extractall(cls.folder.name)
        cls.home = pathlib.Path(cls.folder.name) / cls.file.name.removesuffix(".tar.gz")
        cls.binary = str(cls.home / "bin/dunlin")

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    def test_members_are_in_order_and_of_nobody_at_one_time(self):
        names = [member.name for member in self.members]
        self.assertEqual(names, sorted(names, key=lambda name: name.split("/")))
        self.assertEqual({(member.uid, member.gid, member.uname) for member in self.members}, {(0, 0, "")})
        self.assertEqual(len({member.mtime for member in self.members}), 1)

    def test_libraries_come_from_its_own_folder(self):
        loaded = subprocess.run(["ldd", self.binary], check=True, capture_output=True, text=True).stdout
        paths = re.findall(r"(/\S+) \(0x", loaded)
        ours = {pathlib.Path(path).resolve() for path in paths if not GLIBC.search(path)}
        self.assertEqual(ours, set((self.home / "lib").resolve().iterdir()))

    def test_the_bill_of_materials_names_every_library_that_is_shipped(self):
        bill = json.loads((self.home / "sbom.cdx.json").read_text())
        names = {component["name"] for component in bill["components"]}
        self.assertIn("tokenizers", names)
        self.assertIn("libssl3", names)
        self.assertIn("libgrpc-dev", names)  # of an archive
        self.assertIn("nlohmann-json3-dev", names)
        packages = {ref.split("@")[0].split("/")[-1] for ref in bill["dependencies"][0]["dependsOn"] if ref[:7] == "pkg:deb"}
        self.assertEqual(packages, {path.name for path in (self.home / "licenses").iterdir()})

    def test_it_serves_from_where_it_lies(self):
        arguments = [self.binary, "serve", "--config", str(self.home / "configs/demo.json"), "--set",
                     "listen.grpc=127.0.0.1:0", "--set", "listen.http=127.0.0.1:0"]
        with subprocess.Popen(arguments, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as server:
            try:
                ready = re.fullmatch(r"READY grpc=(\S+) http=\S+\n", server.stdout.readline())
                self.assertIsNotNone(ready)
                text = subprocess.run([self.binary, "generate", "--address", ready[1], "--model", "demo", "--max-tokens",
                                       "8", "--ignore-eos", "The sea"], check=True, capture_output=True, text=True)
                self.assertGreater(len(text.stdout.strip()), 4)
            finally:
                server.terminate()
        self.assertEqual(server.returncode, 0)


class DistWithCuda(unittest.TestCase):
    """With the CUDA module of a build that has one."""

    def setUp(self):
        if not (pathlib.Path(BUILD) / "libdunlin_cuda.so").exists():
            self.skipTest("the CUDA module was not built")

    def test_it_holds_the_module_and_what_checks_it_and_no_cublas(self):
        with tempfile.TemporaryDirectory() as folder:
            done = subprocess.run([str(ROOT / "deploy/dist.sh"), BUILD, folder], capture_output=True, text=True,
                                  env=dict(os.environ, DIST_CUDA="1"))
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
            file = pathlib.Path(done.stdout.split("\n")[-2])
            self.assertLess(file.stat().st_size, 80_000_000)
            with tarfile.open(file) as archive:
                names = archive.getnames()
                archive.extractall(folder)
            self.assertEqual([name for name in names if "libcublas" in name.lower()], [])
            home = file.parent / file.name.removesuffix(".tar.gz")
            for name in ("bin/dunlin", "bin/libdunlin_cuda.so", "bin/tests/device_models_test", "models/demo/config.json",
                         "tests/gpu_check.sh", "tests/golden/models/gpt2_tiny/goldens.json"):
                self.assertTrue((home / name).exists(), name)
            check = subprocess.run([str(home / "tests/gpu_check.sh"), "--rows", "operations", "--out", str(home / "results")],
                                   capture_output=True, text=True, env=dict(os.environ, CUBLAS="/nowhere/libcublasLt.so"))
            self.assertEqual(check.returncode, 1, check.stdout + check.stderr)
            self.assertIn("device cuda cannot be opened", check.stdout + check.stderr)


if __name__ == "__main__":
    unittest.main()

#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""How the binary is linked and mapped: position-independent, relocations read-only before main, stack protectors, no memory
that is writable and executable, neither in the file nor while it serves. Usage: hardening_test.py BINARY, in its build folder.
"""
import pathlib
import re
import subprocess
import sys
import unittest

# Archives whose functions have no buffers.
WITHOUT_BUFFERS = {"libdunlin_fronts.a", "libdunlin_speculation.a"}
ROOT = pathlib.Path(__file__).resolve().parents[2]
BINARY = sys.argv.pop(1) if len(sys.argv) > 1 else str(ROOT / "build/release/dunlin")


def readelf(*options):
    return subprocess.run(["readelf", "-W", *options, BINARY], capture_output=True, text=True, check=True).stdout


def segments():
    """[(type, flags)] of the program headers."""
    return re.findall(r"^  (\w+) +(?:0x[0-9a-f]+ +){5}([RWE ]{3})", readelf("-l"), re.M)


class File(unittest.TestCase):
    def test_it_is_loaded_at_any_address(self):
        self.assertRegex(readelf("-h"), r"Type: +DYN \(Position-Independent Executable file\)")

    def test_relocations_are_read_only_before_main(self):
        self.assertIn("GNU_RELRO", [kind for kind, _ in segments()])
        self.assertRegex(readelf("-d"), r"\(FLAGS_1\) +Flags:.*\bNOW\b")

    def test_no_segment_is_writable_and_executable(self):
        found = segments()
        self.assertIn("LOAD", [kind for kind, _ in found])
        self.assertEqual([(kind, flags) for kind, flags in found if "W" in flags and "E" in flags], [])
        self.assertEqual([flags.strip() for kind, flags in found if kind == "GNU_STACK"], ["RW"])

    def test_functions_with_buffers_check_the_stack(self):
        build = pathlib.Path(BINARY).resolve().parent
        archives = [path for room in ("engine", "server", "text") for path in (build / room).rglob("libdunlin_*.a")]
        self.assertGreater(len(archives), 8)
        unchecked = [path.name for path in archives if "__stack_chk_fail" not in
                     subprocess.run(["nm", "-u", path], capture_output=True, text=True, check=True).stdout]
        self.assertEqual(set(unchecked) - WITHOUT_BUFFERS, set())


class Process(unittest.TestCase):
    def test_no_memory_is_writable_and_executable(self):
        arguments = ["serve", "--config", ROOT / "configs/demo.json", "--set", "listen.grpc=127.0.0.1:0", "--set",
                     "listen.http=127.0.0.1:0", "--set", "log.level=warn"]
        with subprocess.Popen([BINARY, *arguments], stdout=subprocess.PIPE, text=True) as server:
            try:
                ready = server.stdout.readline()
                self.assertRegex(ready, r"^READY ")
                address = re.search(r"grpc=(\S+)", ready)[1]
                # One request, so that its threads have begun.
                subprocess.run([BINARY, "generate", "--address", address, "--model", "demo", "--max-tokens", "8", "The"],
                               check=True, timeout=60, stdout=subprocess.DEVNULL)
                maps = pathlib.Path(f"/proc/{server.pid}/maps").read_text(encoding="utf-8").splitlines()
            finally:
                server.terminate()
        self.assertGreater(len(maps), 20)
        self.assertEqual([line for line in maps if re.match(r"\S+ .wx", line)], [])


if __name__ == "__main__":
    unittest.main()

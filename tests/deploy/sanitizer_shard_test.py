# SPDX-License-Identifier: Apache-2.0
"""The shards of .ci/sanitizer_shard against the labels asan and tsan of the tests. Argument: the build folder."""

import json
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
SCRIPT = ROOT / ".ci/sanitizer_shard"
BUILD = sys.argv[1]


def shards():
    """[(preset, pattern of paths, variants, [test])], as ctest names them."""
    lines = subprocess.run([SCRIPT, "list"], capture_output=True, text=True, check=True).stdout.splitlines()
    return [(preset, paths, variants, tests) for preset, paths, variants, *tests in map(str.split, lines)]


def chosen(*changed):
    """The shard that is taken when these paths have changed."""
    with tempfile.NamedTemporaryFile("w") as file:
        file.write("\n".join(changed) + "\n")
        file.flush()
        return int(subprocess.run([SCRIPT, "choose", file.name], capture_output=True, text=True, check=True).stdout)


def labels():
    """Labels by test."""
    shown = subprocess.run(["ctest", "--test-dir", BUILD, "--show-only=json-v1"], capture_output=True, text=True, check=True).stdout
    found = {}
    for test in json.loads(shown)["tests"]:
        of_test = [p["value"] for p in test.get("properties", []) if p["name"] == "LABELS"]
        found[test["name"]] = set(of_test[0]) if of_test else set()
    return found


class SanitizerShards(unittest.TestCase):
    def test_every_labelled_test_is_in_a_shard_and_the_other_way_round(self):
        of_tests = labels()
        for preset in ("asan", "tsan"):
            promised = {name for name, of_test in of_tests.items() if preset in of_test}
            covered = {test for of_shard, _, _, tests in shards() if of_shard == preset for test in tests}
            self.assertTrue(promised, preset)
            self.assertEqual(promised, covered, f"label {preset}, against the shards")

    def test_every_cpu_variant_is_instrumented_in_some_shard(self):
        variants = {variant for _, _, names, _ in shards() for variant in names.split(";")}
        self.assertEqual(variants - {"none"}, {"portable", "avx2", "avx512", "avx512_base", "avx512_bf16", "amx"})

    def test_every_library_is_instrumented_in_some_shard(self):
        patterns = [paths for preset, paths, _, _ in shards() if preset == "asan"]
        folders = [path.parent.relative_to(ROOT).as_posix() + "/" for room in ("engine", "proto", "server", "text")
                   for path in (ROOT / room).glob("**/CMakeLists.txt") if re.search(r"^(dunlin_)?add_library\(", path.read_text(), re.M)]
        self.assertGreater(len(folders), 30)
        missing = [folder for folder in folders if not any(re.search(pattern, folder) for pattern in patterns)]
        self.assertEqual(missing, ["server/commands/"], "commands have no test with the label")

    def test_a_change_takes_a_shard_that_tests_it(self):
        def tests(*changed):
            return set(shards()[chosen(*changed)][3])

        self.assertIn("grammar_test", tests("docs/chat.md", "text/rust/src/limits.rs"))
        self.assertIn("attention_paged_test", tests("kernels/cpu/attention/flash.cc"))
        self.assertIn("front_kserve_test", tests("server/fronts/kserve/infer_json.cc"))
        self.assertIn(chosen("README.md"), range(len(shards())))


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])

# SPDX-License-Identifier: Apache-2.0
"""Tests of .ci/skipped_tests on results that are written here."""

import importlib.machinery
import importlib.util
import io
import pathlib
import sys
import tempfile
import unittest

SCRIPT = pathlib.Path(__file__).resolve().parents[2] / ".ci/skipped_tests"
LIMITS = """# words
any there is no CUDA driver
2 a format with dynamic inputs
required module_test
"""


def load():
    loader = importlib.machinery.SourceFileLoader("skipped_tests", str(SCRIPT))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader("skipped_tests", loader))
    loader.exec_module(module)
    return module


def case(name, message=None):
    skipped = f'<skipped message="{message}" />' if message else ""
    return f'<testcase name="{name}" status="run" classname="S">{skipped}</testcase>'


class SkippedTests(unittest.TestCase):
    def setUp(self):
        self.temporary = tempfile.TemporaryDirectory()
        self.addCleanup(self.temporary.cleanup)
        self.folder = pathlib.Path(self.temporary.name)
        (self.folder / "limits.txt").write_text(LIMITS, encoding="utf-8")
        self.write_ctest(["device_test", "module_test", "plain_test"])
        self.write("device_test", [case("a"), case("b", "/w/t.cc:4&#x0A;no device behind /w/build/lib.so: there is no CUDA driver")])
        self.write("plain_test", [case("c", "/w/p.cc:9&#x0A;a format with dynamic inputs")])

    def write(self, name, cases):
        variants = ('<property name="cpu_variants_run" value="avx2 portable"/>'
                    '<property name="cpu_variants_known" value="amx_bf16 avx2 portable"/>')
        (self.folder / f"{name}.xml").write_text(
            f'<testsuites tests="{len(cases)}"><testsuite><properties>{variants}</properties>{"".join(cases)}</testsuite></testsuites>', encoding="utf-8")

    def write_ctest(self, ran, not_run=()):
        cases = [f'<testcase name="{name}" status="run"/>' for name in ran]
        cases += [f'<testcase name="{name}" status="notrun"><skipped message="SKIP_RETURN_CODE=77"/></testcase>' for name in not_run]
        (self.folder / "ctest.xml").write_text(f"<testsuite>{''.join(cases)}</testsuite>", encoding="utf-8")

    def run_script(self, ci="true"):
        out = io.StringIO()
        status = load().main([str(self.folder), str(self.folder / "limits.txt")], {"CI": ci}, out)
        return status, out.getvalue()

    def test_what_the_file_allows_is_listed_by_reason(self):
        status, text = self.run_script()
        self.assertEqual(status, 0, text)
        self.assertIn("skipped tests: 2\n", text)
        self.assertIn("1 there is no CUDA driver (this machine)\n", text)
        self.assertIn("1 a format with dynamic inputs (limit is 2: lower it)\n", text)
        self.assertIn("CPU variants: avx2 portable; not on this processor: amx_bf16\n", text)

    def test_a_new_reason_fails_without_folders_of_the_machine(self):
        self.write("plain_test", [case("c", "/w/p.cc:9&#x0A;/w/build/libx.so is missing")])
        status, text = self.run_script()
        self.assertEqual(status, 1)
        self.assertIn("NOT ALLOWED: 1 skipped for a new reason: libx.so is missing", text)

    def test_more_of_a_reason_than_allowed_fails(self):
        self.write("plain_test", [case(str(i), "/w/p.cc:9&#x0A;a format with dynamic inputs") for i in range(3)])
        status, text = self.run_script()
        self.assertEqual(status, 1)
        self.assertIn("3 skipped, limit is 2: a format", text)

    def test_a_program_that_vanished_fails_in_ci_alone(self):
        self.write_ctest(["device_test", "plain_test"])
        self.assertEqual(self.run_script(ci="")[0], 0)
        status, text = self.run_script()
        self.assertEqual(status, 1)
        self.assertIn("module_test did not run", text)

    def test_a_program_that_ctest_skipped_counts(self):
        self.write_ctest(["device_test", "module_test", "plain_test"], not_run=["monitoring_test"])
        status, text = self.run_script()
        self.assertEqual(status, 1)
        self.assertIn("new reason: monitoring_test did not run", text)

    def test_a_part_that_another_test_ran_does_not_count(self):
        self.write("device_test_1", [case("b", "/w/t.cc:4&#x0A;something else")])
        self.assertEqual(self.run_script()[0], 0)

    def test_no_results_fail(self):
        (self.folder / "ctest.xml").unlink()
        self.assertEqual(self.run_script()[0], 1)

    def test_no_report_of_cpu_variants_fails(self):
        for path in self.folder.glob("*_test.xml"):
            path.write_text('<testsuites tests="0"/>', encoding="utf-8")
        self.assertIn("no test reported the CPU variants", self.run_script()[1])

    def test_the_file_of_the_tree_can_be_read(self):
        limits, required = load().read_limits(SCRIPT.with_name("skipped_tests.txt"))
        self.assertGreater(len(limits), 3)
        self.assertIn("kernels_cuda_module_test", required)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])

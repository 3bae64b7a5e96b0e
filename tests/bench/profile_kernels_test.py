# SPDX-License-Identifier: Apache-2.0
"""What profile_kernels.py reads from perf's reports, whose symbol names differ between versions of perf."""

import unittest

import profile_kernels

SHORT_NAMES = """
# Overhead  Symbol
    40.00%  [.] dunlin::kernels::cpu::dot::ScorePages<dunlin::kernels::cpu::(anonymous namespace)::DotKeys, 8, 2, (dunlin::kernels::cpu::dot::Mode)3>
    20.00%  [.] dunlin::kernels::cpu::Avx512Read
    20.00%  [k] clear_page_erms
    10.00%  [.] dunlin::kernels::cpu::(anonymous namespace)::RunBlock
     5.00%  [.] dunlin::kernels::cpu::ThreadPool::Run<dunlin::kernels::cpu::RunFlash>
     5.00%  [.] dunlin::tools::bench::FillCodes
"""
WHOLE_NAMES = """
    30.00%  [.] void dunlin::kernels::cpu::dot::ValueBlock<8, 2, (dunlin::kernels::cpu::dot::Mode)3>(dunlin::kernels::cpu::ValueArgs const&, int)
    20.00%  [.] dunlin::kernels::cpu::Avx512Read(std::byte const*, unsigned long, unsigned long)
"""


class FunctionsTest(unittest.TestCase):
    def test_shares_count_only_kernels(self):
        rows = profile_kernels.functions(SHORT_NAMES)
        self.assertEqual([(share, profile_kernels.short(symbol)) for share, symbol in rows],
                         [(80.0, "ScorePages<DotKeys, 8, 2, 3>"), (20.0, "RunBlock")])

    def test_names_with_return_types_and_arguments(self):
        rows = profile_kernels.functions(WHOLE_NAMES)
        self.assertEqual([(share, profile_kernels.short(symbol)) for share, symbol in rows],
                         [(100.0, "ValueBlock<8, 2, 3>")])

    def test_report_without_kernels_is_an_error(self):
        with self.assertRaisesRegex(RuntimeError, "symbols"):
            profile_kernels.functions("    99.00%  [.] 0x00000000000fec40\n")


class RunTest(unittest.TestCase):
    def test_failed_command_is_reported_with_its_reason(self):
        with self.assertRaisesRegex(RuntimeError, "sh -c .* exited with 3: why"):
            profile_kernels.run(["sh", "-c", "echo why >&2; exit 3"])


if __name__ == "__main__":
    unittest.main()

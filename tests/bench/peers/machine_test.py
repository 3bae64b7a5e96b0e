# SPDX-License-Identifier: Apache-2.0
"""What a machine is called, by texts of /proc/cpuinfo."""

import pathlib
import re
import sys
import unittest

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))

import machine  # noqa: E402

EPYC = """processor\t: 0
vendor_id\t: AuthenticAMD
model\t\t: 1
model name\t: AMD EPYC 7R13
flags\t\t: fpu sse2 avx2 avx512f_not

"""


def core(implementer, part, features="fp asimd aes"):
    """As Linux for aarch64 writes one."""
    return (f"processor\t: 0\nBogoMIPS\t: 2100.00\nFeatures\t: {features}\nCPU implementer\t: {implementer}\n"
            f"CPU architecture: 8\nCPU variant\t: 0x1\nCPU part\t: {part}\nCPU revision\t: 1\n\n")


class Machine(unittest.TestCase):
    def test_an_x86_processor_has_the_name_that_it_gives_itself(self):
        self.assertEqual(machine.processor_name(EPYC + EPYC), "AMD EPYC 7R13")

    def test_arm_cores_have_the_names_of_their_numbers_each_once(self):
        self.assertEqual(machine.processor_name(core("0x41", "0xd4f") * 2), "Neoverse V2")
        self.assertEqual(machine.processor_name(core("0x61", "0x022") + core("0x41", "0xd08") + core("0x61", "0x022")),
                         "ARM implementer 0x61 part 0x022 and Cortex-A72")

    def test_no_core_is_an_unknown_processor(self):
        self.assertEqual(machine.processor_name("processor\t: 0\n"), "unknown processor")
        self.assertEqual(machine.processor_name(""), "unknown processor")

    def test_the_names_are_those_of_dunlin_bench(self):
        source = (HERE.parents[2] / "tools/bench/processor_name.cc").read_text(encoding="utf-8")
        rows = re.findall(r'\{"(0x\w+)", "(0x\w+)", "([^"]+)"\}', source)
        self.assertEqual({(implementer, part): name for implementer, part, name in rows}, machine.ARM_CORES)
        self.assertIn('"unknown processor"', source)

    def test_instructions_are_whole_words_of_flags_or_features(self):
        self.assertEqual(machine.instructions(EPYC), ["avx2"])
        self.assertEqual(machine.instructions(core("0x41", "0xd4f", "fp asimddp sve i8mm svebf16 bf16")),
                         ["asimddp", "i8mm", "bf16", "sve"])
        self.assertEqual(machine.instructions(""), [])


if __name__ == "__main__":
    unittest.main()

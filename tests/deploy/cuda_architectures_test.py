# SPDX-License-Identifier: Apache-2.0
"""The architectures of .ci/cuda_architectures against what nvcc reads. Argument: the build folder."""

import pathlib
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(sys.argv[1])


def architectures(*changed):
    """What is built when these paths have changed."""
    with tempfile.NamedTemporaryFile("w") as file:
        file.write("".join(f"{path}\n" for path in changed))
        file.flush()
        return subprocess.run([ROOT / ".ci/cuda_architectures", file.name], capture_output=True, text=True,
                              check=True).stdout.strip().split(";")


class CudaArchitectures(unittest.TestCase):
    def test_a_change_elsewhere_builds_one(self):
        self.assertEqual(architectures("server/main.cc", "kernels/cpu/gemm/gemm.cc", "tests/kernels/cuda/module_test.cc"), ["90a"])

    def test_a_change_of_what_nvcc_reads_builds_two(self):
        for changed in (["docs/gpu.md", "kernels/cuda/ops/row_ops.cu"], ["cmake/DunlinCuda.cmake"], ["deploy/cuda_toolkit.lock"], []):
            built = architectures(*changed)
            self.assertEqual(built[0], "90a", changed)
            self.assertEqual(len(built), 2, changed)

    def test_every_source_that_nvcc_read_is_known(self):
        lists = sorted((BUILD / "kernels/cuda").glob("**/*.cu.o.d"))
        if not lists:
            self.skipTest("no CUDA module was built")
        words = {pathlib.Path(word) for file in lists for word in file.read_text().split() if word.startswith("/")}
        read = {str(path.relative_to(ROOT)) for path in words
                if path.is_relative_to(ROOT) and not path.is_relative_to(ROOT / "build")}
        self.assertGreater(len(read), 20)
        for path in {tuple(path.split("/")[:2]): path for path in read}.values():  # one of each folder
            self.assertEqual(len(architectures(path)), 2, path)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])

#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What LLVM's models of ARM server cores predict for the inner loops of the NEON kernels: products a cycle, as a share of
what the core's vector units issue at most. No measurement: all data are taken to be in L1, and branches to be right.

Usage: arm_predictions.py BUILD LLVM_MCA. BUILD: a build for aarch64 (make arm-test). LLVM_MCA: llvm-mca of LLVM 17 or later,
because older ones take these cores for a Cortex-A57. Prints a table in Markdown."""
import pathlib
import re
import subprocess
import sys

CORES = {"neoverse-n2": 2, "neoverse-v1": 4, "neoverse-v2": 4}  # vector units that multiply
PRODUCTS = ("fmla", "bfdot", "bfmmla", "sdot", "smmla")
KERNELS = (  # what, its object, and the function, as a regular expression
    ("FP32, tile of 6 rows", "gemm/neon/fp32.cc", r"SliceTile<.*InPlace, true, 6>"),
    ("FP32, tile of 6 rows that copies the slice", "gemm/neon/fp32.cc", r"SliceTile<.*Widen, true, 6>"),
    ("BF16, tile of 6 rows that widens the slice", "gemm/neon/bf16.cc", r"SliceTile<.*Widen, true, 6>"),
    ("FP8, tile of 6 rows that widens the slice", "gemm/neon/fp8.cc", r"SliceTile<.*Widen, true, 6>"),
    ("FP32, 2 rows", "gemm/neon/fp32.cc", r"SmallMTile<2>"),
    ("FP32, 1 row", "gemm/neon/fp32.cc", r"SmallMTile<1>"),
    ("BFMMLA: BF16, tile of 6 rows", "gemm/neon_bf16/bf16.cc", r"SliceTile<.*InPlace, true, 6>"),
    ("BFMMLA: BF16, tile of 6 rows that widens the slice", "gemm/neon_bf16/bf16.cc", r"SliceTile<.*ToOperands<.*, true, 6>"),
    ("BFMMLA: FP8, tile of 6 rows that widens the slice", "gemm/neon_bf16/fp8.cc", r"SliceTile<.*ToOperands<.*, true, 6>"),
    ("BFDOT: BF16, 2 rows", "gemm/neon_bf16/bf16.cc", r"SmallMTile<2>"),
    ("BFDOT: BF16, 1 row", "gemm/neon_bf16/bf16.cc", r"SmallMTile<1>"),
    ("BFDOT: scores of 6 rows of BF16 pages", "attention/neon_bf16/bf16.cc", r"ScoreVectors<.*, 6, 1>"),
    ("SMMLA: INT8, tile of 6 rows", "gemm/neon_i8mm/int8_inputs.cc", r"VectorGemm<.*Int8ToBytes.*SliceTile<.*InPlace, true, 6>"),
)
BRANCH = re.compile(r"^(?:b\.\w+|cbn?z|tbn?z)\b.*?\b([0-9a-f]+) <")


def functions(path):
    """{name: [(address, instruction)]} of an object."""
    text = subprocess.run(["aarch64-linux-gnu-objdump", "-d", "-C", "--no-show-raw-insn", str(path)], check=True,
                          capture_output=True, text=True).stdout
    found, current = {}, None
    for line in text.splitlines():
        head = re.match(r"^[0-9a-f]+ <(.*)>:$", line)
        if head:
            current = found.setdefault(head.group(1), [])
            continue
        code = re.match(r"^\s+([0-9a-f]+):\s+(.*)$", line)
        if code and current is not None:
            current.append((int(code.group(1), 16), code.group(2).replace("\t", " ")))
    return found


def products(loop):
    return sum(instruction.split()[0] in PRODUCTS for _, instruction in loop)


def inner_loops(body):
    """Loops without a loop inside, as lists of instructions."""
    index = {address: i for i, (address, _) in enumerate(body)}
    spans = []
    for i, (_, instruction) in enumerate(body):
        branch = BRANCH.match(instruction)
        if branch and index.get(int(branch.group(1), 16), i + 1) <= i:
            spans.append((index[int(branch.group(1), 16)], i))
    return [body[a:b + 1] for a, b in spans
            if not any((c, d) != (a, b) and a <= c and d <= b for c, d in spans)]


def cycles(loop, core, mca):
    text = "loop:\n"
    for _, instruction in loop:
        text += re.sub(r"\b[0-9a-f]+ <.*$", "loop", instruction) + "\n"
    out = subprocess.run([mca, "-mtriple=aarch64", f"-mcpu={core}", "-mattr=+bf16,+i8mm", "-iterations=100"], input=text,
                         check=True, capture_output=True, text=True).stdout
    return int(re.search(r"Total Cycles:\s+(\d+)", out).group(1)) / 100


def main():
    build, mca = pathlib.Path(sys.argv[1]), sys.argv[2]
    objects = build / "kernels/cpu/CMakeFiles/dunlin_kernels.dir"
    print("| kernel | products a loop | " + " | ".join(CORES) + " |")
    print("|---|---|" + "---|" * len(CORES))
    for what, source, pattern in KERNELS:
        loops = [loop for name, body in functions(objects / (source + ".o")).items() if re.search(pattern, name)
                 for loop in inner_loops(body)]
        loop = max(loops, key=products)
        shares = [f"{products(loop) / units / cycles(loop, core, mca):.2f}" for core, units in CORES.items()]
        print(f"| {what} | {products(loop)} | " + " | ".join(shares) + " |")


if __name__ == "__main__":
    main()

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
BYTE_PRODUCTS = ("sdot", "smmla")
PRODUCTS = ("fmla", "bfdot", "bfmmla", *BYTE_PRODUCTS)
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
)
GROUPED = (  # the same of 6 rows and a group of 32 weights, whose sums are scaled; and how often the first loop inside runs
    ("SDOT: INT8, tile of 6 rows, a group of 32", "gemm/neon_dot/int8_inputs.cc",
     r"WeightFormat\)4,.*GroupedSliceTile<.*InPlace, true, 6>", 2),
    ("SMMLA: INT8, tile of 6 rows, a group of 32", "gemm/neon_i8mm/int8_inputs.cc",
     r"WeightFormat\)4>.*GroupedSliceTile<.*InPlace, true, 6>", 0),
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


def products(loop, of=PRODUCTS):
    return sum(instruction.split()[0] in of for _, instruction in loop)


def spans_of(body):
    """(first, last) instruction of each loop."""
    index = {address: i for i, (address, _) in enumerate(body)}
    spans = []
    for i, (_, instruction) in enumerate(body):
        branch = BRANCH.match(instruction)
        if branch and index.get(int(branch.group(1), 16), i + 1) <= i:
            spans.append((index[int(branch.group(1), 16)], i))
    return spans


def inner_loops(body):
    """Loops without a loop inside, as lists of instructions."""
    spans = spans_of(body)
    return [body[a:b + 1] for a, b in spans
            if not any((c, d) != (a, b) and a <= c and d <= b for c, d in spans)]


def group_loops(body, times):
    """Loops around others, with the first of those so many times in place of all: the rest are of what is left of a group."""
    spans = spans_of(body)
    for a, b in spans:
        inside = sorted((c, d) for c, d in spans if (c, d) != (a, b) and a <= c and d <= b)
        if inside:
            around = [body[i] for i in range(a, b + 1) if not any(c <= i <= d for c, d in inside)]
            first, last = inside[0]
            yield body[first:last + 1] * times + around


def sve_loop():
    """The tile of 6 rows and 16 columns in FP32 by SVE with vectors of 256 bits, which no variant has: four steps of K."""
    loop = [f"ld1rqw {{z{row}.s}}, p0/z, [x{row + 1}]" for row in range(6)]
    for k in range(4):
        loop += [f"ld1w {{z{20 + 2 * k + half}.s}}, p0/z, [x0, #{2 * k + half - 4}, mul vl]" for half in range(2)]
        loop += [f"fmla z{8 + 2 * row + half}.s, z{20 + 2 * k + half}.s, z{row}.s[{k}]" for row in range(6)
                 for half in range(2)]
    loop += [f"add x{row}, x{row}, #{256 if row == 0 else 16}" for row in range(7)]
    return [(0, instruction) for instruction in [*loop, "subs x8, x8, #1", "b.ne 0 <loop>"]]


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
    rows = [(*kernel, inner_loops, PRODUCTS) for kernel in KERNELS]
    for what, source, pattern, times in GROUPED:
        rows.append((what, source, pattern, lambda body, times=times: group_loops(body, times), BYTE_PRODUCTS))
    for what, source, pattern, loops_of, of in rows:
        loops = [loop for name, body in functions(objects / (source + ".o")).items() if re.search(pattern, name)
                 for loop in loops_of(body)]
        loop = max(loops, key=lambda loop: products(loop, of))
        shares = [f"{products(loop, of) / units / cycles(loop, core, mca):.2f}" for core, units in CORES.items()]
        print(f"| {what} | {products(loop, of)} | " + " | ".join(shares) + " |")
    sve = sve_loop()  # on two units of 256 bits
    share = f"{products(sve) / 2 / cycles(sve, 'neoverse-v1', mca):.2f}"
    shares = [share if core == "neoverse-v1" else "" for core in CORES]
    print(f"| SVE of 256 bits, which no variant has: FP32, tile of 6 rows | {products(sve)} | " + " | ".join(shares) + " |")


if __name__ == "__main__":
    main()

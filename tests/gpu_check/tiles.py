# SPDX-License-Identifier: Apache-2.0
"""The tile shapes that a device measured (kernels/cuda/gemm/tile_choices.h), out of a file of
compute.cublas_algorithm_cache, as text. Usage: tiles.py FILE

For a row of kTileRules (kernels/cuda/gemm/sm90/wgmma_plan.cc) the fastest shape and what the others took are what
counts: each line has all of them, in microseconds. Standard library only.
"""

import re
import sys

# WgmmaTileShape: rows by outputs; and CodedShape.
SHAPES = ("128x256", "128x128", "64x128", "64x64", "32x64", "16x64", "8x64", "16x16", "8x16")
CODED_SHAPES = ("Wide8x64", "Wide16x64", "Wide32x64", "Wide64x64", "8x16", "16x16", "64x64", "128x128")
LINE = re.compile(r"tile (.+) (\d+) x (\d+) rows (\d+) =((?: [0-9a-f]{16}){8})$", re.M)


def choices(text):
    """Of each product and number of rows, in order: (kernel, outputs, inputs, rows, shape, {shape: us})."""
    found = []
    for kernel, outputs, inputs, rows, data in LINE.findall(text):
        words = [int(word, 16) for word in data.split()]
        names = CODED_SHAPES if kernel == "wgmma codes" else SHAPES
        nanoseconds = [word >> shift & 0xFFFFFFFF for word in words[1:] for shift in (0, 32)]
        times = {name: time / 1000 for name, time in zip(names, nanoseconds) if time}
        if not 1 <= words[0] <= len(names):
            continue
        found.append((kernel, int(outputs), int(inputs), int(rows), names[words[0] - 1], times))
    return sorted(found)


def table(text):
    lines = []
    for kernel, outputs, inputs, rows, shape, times in choices(text):
        others = ", ".join(f"{name} {time:.1f}" for name, time in sorted(times.items(), key=lambda item: item[1])
                           if name != shape)
        lines.append(f"{kernel:18} {outputs:6} x {inputs:<6} {rows:5} rows: {shape} {times.get(shape, 0):.1f} us"
                     + (f"; {others}" if others else ""))
    return lines


if __name__ == "__main__":
    with open(sys.argv[1], encoding="ascii") as file:
        print("\n".join(table(file.read())))

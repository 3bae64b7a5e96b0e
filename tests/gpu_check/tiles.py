# SPDX-License-Identifier: Apache-2.0
"""The tile shapes that a device measured (kernels/cuda/gemm/tile_choices.h), out of a file of
compute.cublas_algorithm_cache, as text. Usage: tiles.py FILE

For a row of the kernels' own tables (kernels/cuda/gemm/sm90/wgmma_plan.cc, coded_shapes.cc) the fastest shape and what
the others took are what counts: each line has all of them, in microseconds. After these a line for each kernel says
which shape costs least over all of its products up to how many rows: the bounds of its table. Rows in groups with a
weight each, experts, are counted by the mean of a group. Standard library only.
"""

import math
import re
import sys

# WgmmaTileShape: rows by outputs; GroupedTileShape, the first of them; CodedShape; GroupedCodedShape.
SHAPES = ("128x256", "128x128", "64x128", "64x64", "32x64", "16x64", "8x64", "16x16", "8x16")
GROUPED_SHAPES = SHAPES[:7]
CODED_SHAPES = ("Wide8x64", "Wide16x64", "Wide32x64", "Wide64x64", "8x16", "16x16", "64x64", "128x128")
GROUPED_CODED_SHAPES = ("16x16", "64x64", "128x128")
LINE = re.compile(r"tile (.+) (\d+) x (\d+)(?: groups (\d+))? rows (\d+) =((?: [0-9a-f]{16}){8})$", re.M)


def shapes_of(kernel):
    if kernel.endswith(" or cublaslt"):  # where bits may depend on the number of rows
        return ("own", "cublaslt")
    if "codes" in kernel:
        return GROUPED_CODED_SHAPES if kernel.startswith("grouped") else CODED_SHAPES
    return GROUPED_SHAPES if kernel.startswith("grouped") else SHAPES


def choices(text):
    """Of each product and number of rows, in order: (kernel, outputs, inputs, groups, rows, shape, {shape: us})."""
    found = []
    for kernel, outputs, inputs, groups, rows, data in LINE.findall(text):
        words = [int(word, 16) for word in data.split()]
        names = shapes_of(kernel)
        nanoseconds = [word >> shift & 0xFFFFFFFF for word in words[1:] for shift in (0, 32)]
        times = {name: time / 1000 for name, time in zip(names, nanoseconds) if time}
        if not 1 <= words[0] <= len(names):
            continue
        found.append((kernel, int(outputs), int(inputs), int(groups or 0), int(rows), names[words[0] - 1], times))
    return sorted(found)


def table(text):
    lines = []
    for kernel, outputs, inputs, groups, rows, shape, times in choices(text):
        others = ", ".join(f"{name} {time:.1f}" for name, time in sorted(times.items(), key=lambda item: item[1])
                           if name != shape)
        product = f"{outputs:6} x {inputs:<6}" + (f" {groups:4} groups of" if groups else "")
        lines.append(f"{kernel:18} {product} {rows:5} rows: {shape} {times.get(shape, 0):.1f} us"
                     + (f"; {others}" if others else ""))
    return lines


def cheapest(measured):
    """The shape of the least mean loss against each product's own best, and that loss; of shapes that all have."""
    losses = {}
    for times in measured:
        best = min(times.values())
        for name, time in times.items():
            losses.setdefault(name, []).append(math.log(time / best))
    means = {name: sum(logs) / len(logs) for name, logs in losses.items() if len(logs) == len(measured)}
    return min(means.items(), key=lambda item: item[1]) if means else None


def bounds(text):
    """A line for each kernel: "kernel, n products: up to r rows SHAPE (+loss), .., more SHAPE (+loss)"."""
    by_kernel = {}
    for kernel, outputs, inputs, groups, rows, _, times in choices(text):
        of_rows, products = by_kernel.setdefault(kernel, ({}, set()))
        products.add((outputs, inputs, groups))
        if times:
            of_rows.setdefault(rows, []).append(times)
    lines = []
    for kernel, (of_rows, products) in sorted(by_kernel.items()):
        ranges = []  # [rows, shape, losses]
        for rows, measured in sorted(of_rows.items()):
            if (found := cheapest(measured)) is None:
                continue
            if ranges and ranges[-1][1] == found[0]:
                ranges[-1][0] = rows
                ranges[-1][2].append(found[1])
            else:
                ranges.append([rows, found[0], [found[1]]])
        told = [f"{'more' if i + 1 == len(ranges) else f'up to {rows} rows'} {shape} "
                f"(+{100 * math.expm1(sum(losses) / len(losses)):.1f} %)"
                for i, (rows, shape, losses) in enumerate(ranges)]
        if told:
            lines.append(f"{kernel}, {len(products)} products: {', '.join(told)}")
    return lines


def told(text):
    return [*table(text), *bounds(text)]


if __name__ == "__main__":
    with open(sys.argv[1], encoding="ascii") as file:
        print("\n".join(told(file.read())))

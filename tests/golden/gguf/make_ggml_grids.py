#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes engine/model/checkpoint/gguf/ggml_grids.inc from the tables of the Python package `gguf`: the vectors of 8 or 4
magnitudes that indices of GGUF's IQ types stand for, a 16-bit word for each. Checks that a stored index of signs is
seven signs whose eighth makes their number even, so that those need no table.

Usage: make_ggml_grids.py     (needs gguf, numpy)
"""

import pathlib

import numpy as np
from gguf import quants

OUT = pathlib.Path(__file__).resolve().parents[3] / "engine/model/checkpoint/gguf/ggml_grids.inc"
# Name -> (type, bits of an element's place in grid_map).
GRIDS = {"kIq2XxsGrid": (quants.IQ2_XXS, 2), "kIq2XsGrid": (quants.IQ2_XS, 2), "kIq2SGrid": (quants.IQ2_S, 2),
         "kIq3XxsGrid": (quants.IQ3_XXS, 3), "kIq3SGrid": (quants.IQ3_S, 3), "kIq1Grid": (quants.IQ1_S, 2)}
PER_LINE = 14


def words(kind, bits):
    kind.init_grid()
    places = np.array([[kind.grid_map.index(int(value)) for value in row] for row in kind.grid.reshape(kind.grid_shape)])
    return (places << (bits * np.arange(kind.grid_shape[1]))).sum(axis=1)


def main():
    signs = np.frombuffer(quants.IQ2_XXS.ksigns, dtype=np.uint8)
    assert [int(s) for s in signs] == [i | (i.bit_count() & 1) << 7 for i in range(128)]
    lines = ["// SPDX-License-Identifier: Apache-2.0",
             "// Made by tests/golden/gguf/make_ggml_grids.py. The magnitudes of an index, the first in the lowest bits:",
             "// places in the type's list of magnitudes (ggml_iq_codes.cc), of 2 bits, or 3 of IQ3 types."]
    for name, (kind, bits) in GRIDS.items():
        grid = words(kind, bits)
        lines.append(f"constexpr uint16_t {name}[{len(grid)}] = {{")
        for first in range(0, len(grid), PER_LINE):
            lines.append("    " + " ".join(f"0x{word:04X}," for word in grid[first:first + PER_LINE]))
        lines.append("};")
    OUT.write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()

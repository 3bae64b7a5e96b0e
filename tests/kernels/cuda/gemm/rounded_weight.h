// SPDX-License-Identifier: Apache-2.0
// Weights of int8 and int4 for products on the host's machine.
#pragma once

#include <vector>

#include "kernels/cuda/gemm/pack_codes.h"
#include "tests/kernels/attention/devices.h"
#include "tests/kernels/cuda/ops/host_matrix.h"

namespace dunlin::kernels::cuda {

// A weight rounded to codes, and its values as a BF16 matrix.
struct RoundedWeight {
  RoundedWeight(WeightFormat format, int64_t rows, int64_t columns, uint32_t seed = 12)
      : view{nullptr, CodedFormatOf(format), rows, columns},
        memory(static_cast<size_t>(view.bytes())),
        values(Precision::kBf16, rows, columns) {
    if (view.format.group == 0) return;  // not a format of codes
    view.data = reinterpret_cast<unsigned char*>(memory.data());
    const std::vector<float> wide = RandomValues(rows * columns, seed);
    const PackSource source{wide.data(), DType::kF32, columns, 1, 0, nullptr, 0, 0};
    for (int64_t row = 0; row < rows; ++row) {
      for (int64_t half = 0; half < 2 * view.tiles(); ++half) {
        format == WeightFormat::kInt8 ? RoundHalfTile<8>(source, view, row, half)
                                      : RoundHalfTile<4>(source, view, row, half);
      }
    }
    const ExpandCall call{view, 0, rows, values.view().data};
    for (int64_t half = 0; half < call.halves(); ++half) ExpandHalfTile(call, half);
    packed = {.data = view.data,
              .precision = Precision::kBf16,
              .out_features = rows,
              .in_features = columns,
              .format = format};
  }

  CodedView view;
  testing::PoisonedMemory memory;
  HostMatrix values;
  PackedWeight packed;
};

}  // namespace dunlin::kernels::cuda

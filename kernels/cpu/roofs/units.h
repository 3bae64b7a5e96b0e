// SPDX-License-Identifier: Apache-2.0
// The arithmetic units of the processors that the build is for, whose peaks MeasureRoofs measures: one file for each
// architecture. Any thread.
#pragma once

#include <cstddef>
#include <span>

#include "kernels/cpu/context/context.h"
#include "kernels/cpu/roofs/loops.h"

namespace dunlin::kernels::cpu {

struct UnitRow {
  const char* name;
  bool fp32;  // multiplies FP32 values; the others BF16 ones alone
  PeakLoop run;
  double round_flops;
  bool (*available)();
};
// The first one is what every processor of the architecture has.
std::span<const UnitRow> Units();

// What a variant's GEMM multiplies with: indices of Units().
struct VariantUnits {
  size_t fp32;
  size_t bf16;
};
VariantUnits UnitsOf(CpuVariant variant);

// The loop with the widest loads that this processor has.
ReadLoop BestReadLoop();

}  // namespace dunlin::kernels::cpu

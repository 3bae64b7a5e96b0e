// SPDX-License-Identifier: Apache-2.0
// Matrices in the device's layout: cuBLASLt's FP8 alignment rules, and no overlaps.
#include "kernels/cuda/device/layout.h"

#include <gtest/gtest.h>

#include "kernels/cpu/activation/fp8_scale.h"
#include "kernels/cuda/ops/fp8_scale.h"
#include "kernels/shared/fp8_scale.h"
#include "tests/kernels/cuda/ops/host_matrix.h"

namespace dunlin::kernels::cuda {
namespace {

TEST(MatrixLayout, RowsAreMultiplesOf16BytesAndDepthsOf16Elements) {
  for (const Precision precision : kAllPrecisions) {
    for (const int64_t columns : {1, 15, 16, 17, 768, 4097}) {
      EXPECT_EQ(RowBytes(precision, columns) % 16, 0);
      EXPECT_EQ(PaddedDepth(columns) % 16, 0);
      EXPECT_GE(PaddedDepth(columns), columns);
      EXPECT_LT(PaddedDepth(columns), columns + 16);
    }
  }
}

TEST(MatrixLayout, ScalesFollowThePaddedRowsAndEndTheMatrix) {
  for (const int64_t rows : {1, 16, 50257}) {
    EXPECT_EQ(PaddedRows(rows) % 16, 0);
    EXPECT_GE(ScalesOffset(Precision::kFp8, rows, 768), PaddedRows(rows) * RowBytes(Precision::kFp8, 768));
    EXPECT_EQ(ScalesOffset(Precision::kFp8, rows, 768) % 256, 0);
    EXPECT_GE(MatrixBytes(Precision::kFp8, rows, 768, 0),
              ScalesOffset(Precision::kFp8, rows, 768) + PaddedRows(rows) * 4);
    EXPECT_EQ(MatrixBytes(Precision::kBf16, rows, 768, 0), RoundUpTo(PaddedRows(rows) * 768 * 2, 256));
  }
  EXPECT_EQ(MatrixBytes(Precision::kFp8, 17, 300, kScaleBlock), ScalesOffset(Precision::kFp8, 17, 300) + 512)
      << "three scales for each of 32 rows";
  EXPECT_EQ(MatrixBytes(Precision::kFp32, 3, 5, 0), 16 * 16 * 4);
  const HostMatrix matrix(Precision::kFp8, 5, 20);
  EXPECT_EQ(matrix.view().row(3) - matrix.view().data, 3 * 32);
  EXPECT_EQ(reinterpret_cast<unsigned char*>(matrix.view().scales()) - matrix.view().data, 512);
}

TEST(Fp8Scales, MatchTheCpus) {
  const float magnitudes[] = {0.0F, 1e-45F, 1e-38F, 5.3e-36F, 0.1F, 1.0F, 448.0F, 3.4e38F, BitsToFloat(kInfinityBits)};
  for (const float magnitude : magnitudes) {
    const uint32_t bits = FloatBits(magnitude);
    EXPECT_EQ(ScaleOfRow(bits).scale, cpu::ScaleOfRow(bits).scale) << magnitude;
    EXPECT_EQ(ScaleOfRow(bits).factor, cpu::ScaleOfRow(bits).factor) << magnitude;
    EXPECT_EQ(CurrentScale(bits).scale, cpu::GivenScale(1.0F / FactorFromAmax(magnitude)).scale) << magnitude;
    EXPECT_EQ(CurrentScale(bits).factor, cpu::GivenScale(1.0F / FactorFromAmax(magnitude)).factor) << magnitude;
    EXPECT_EQ(LimitMagnitude(bits, 2.0F), cpu::LimitMagnitude(bits, 2.0F)) << magnitude;
    if (magnitude > 0 && magnitude < 3e38F) {
      EXPECT_EQ(GivenScale(magnitude).factor, cpu::GivenScale(magnitude).factor) << magnitude;
    }
  }
  EXPECT_EQ(CurrentScale(0x7FC00000U).scale, 1.0F) << "NaN";
}

}  // namespace
}  // namespace dunlin::kernels::cuda

// SPDX-License-Identifier: Apache-2.0
// Packing and row gather in the device's layout, on the host, against the CPU device.
#include "kernels/cuda/gemm/pack_rows.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "kernels/api/device.h"
#include "tests/kernels/cuda/device/thread_lanes.h"
#include "tests/kernels/cuda/ops/host_matrix.h"
#include "tests/kernels/cuda/portable_cpu.h"

namespace dunlin::kernels::cuda {
namespace {

constexpr int64_t kOut = 21;
constexpr int64_t kIn = 37;

// A [kOut, kIn] matrix in a source dtype, row by row or transposed.
struct Plain {
  DType dtype;
  bool transposed;
  std::vector<unsigned char> bytes;
  std::vector<float> scales;  // kF8E4M3: one per row

  Plain(DType source_dtype, bool is_transposed) : dtype(source_dtype), transposed(is_transposed) {
    const std::vector<float> values = RandomValues(kOut * kIn, 11);
    bytes.resize(values.size() * SizeOf(dtype));
    for (int64_t n = 0; n < kOut; ++n) {
      for (int64_t k = 0; k < kIn; ++k)
        Put(transposed ? k * kOut + n : n * kIn + k, values[static_cast<size_t>(n * kIn + k)]);
    }
    if (dtype == DType::kF8E4M3) {
      for (int64_t n = 0; n < kOut; ++n) scales.push_back(0.01F * static_cast<float>(n + 1));
    }
  }
  void Put(int64_t at, float value) {
    unsigned char* to = bytes.data() + static_cast<size_t>(at) * SizeOf(dtype);
    if (dtype == DType::kF32) std::memcpy(to, &value, 4);
    if (dtype == DType::kF8E4M3) *to = FloatToE4M3(value * 100);
    const uint16_t half = dtype == DType::kF16 ? FloatToFp16(value) : FloatToBf16(value);
    if (SizeOf(dtype) == 2) std::memcpy(to, &half, 2);
  }
  PackWeightParams Params(PackedWeight* weight) const {
    return {.weight = weight,
            .source = bytes.data(),
            .source_dtype = dtype,
            .row_stride = transposed ? 1 : kIn,
            .column_stride = transposed ? kOut : 1,
            .row_begin = 0,
            .num_rows = kOut,
            .source_scales = scales.empty() ? nullptr : scales.data()};
  }
};

std::vector<float> GatheredOnCpu(Precision precision, const Plain& plain, const std::vector<int32_t>& ids) {
  const DeviceOps& ops = *Cpu().ops;
  const size_t bytes = ops.packed_weight_bytes(Traits(precision).format, kOut, kIn, 0);
  void* memory = ops.allocate(Cpu().context, bytes);
  PackedWeight weight{memory, precision, kOut, kIn, 0};
  EXPECT_EQ(ops.pack_weight(Cpu().context, plain.Params(&weight)), KernelStatus::kOk);
  std::vector<float> rows(ids.size() * kIn);
  const GatherRowsParams params{&weight, ids.data(), rows.data(), static_cast<int32_t>(ids.size()), false, 1.5F};
  EXPECT_EQ(ops.gather_rows(Cpu().context, params), KernelStatus::kOk);
  ops.release(Cpu().context, memory, bytes);
  return rows;
}

TEST(PackRows, RowsOfEverySourceInEveryPrecisionMatchTheCpus) {
  const std::vector<int32_t> ids = {20, 0, 7, 7};
  for (const Precision precision : kAllPrecisions) {
    for (const DType dtype : {DType::kF32, DType::kF16, DType::kBF16, DType::kF8E4M3}) {
      for (const bool transposed : {false, true}) {
        const Plain plain(dtype, transposed);
        HostMatrix weight(precision, kOut, kIn);
        // Three parts, the middle one by several lanes: as fused matrices are packed, and as the staging area divides
        // them.
        for (const int64_t first : {0, 5, 14}) {
          const int64_t end = first == 0 ? 5 : first == 5 ? 14 : kOut;
          PackSource source{
              .source = plain.bytes.data() + static_cast<size_t>(first * (transposed ? 1 : kIn)) * SizeOf(dtype),
              .dtype = dtype,
              .row_stride = transposed ? 1 : kIn,
              .column_stride = transposed ? kOut : 1,
              .first_row = first,
              .scales = plain.scales.empty() ? nullptr : plain.scales.data() + first,
              .scale_block = 0,
              .scales_per_row = 1};
          for (int64_t row = first; row < end; ++row) {
            RunLanes(first == 5 ? 3 : 1, [&](const ThreadLanes& lanes) { PackRow(lanes, source, weight.view(), row); });
          }
        }
        std::vector<float> rows(ids.size() * kIn, 100.0F);
        const GatherCall call{weight.view(), ids.data(), rows.data(), false, 1.5F};
        for (int64_t i = 0; i < static_cast<int64_t>(ids.size()); ++i) GatherRow(SingleLane(), call, i);
        ASSERT_EQ(rows, GatheredOnCpu(precision, plain, ids))
            << Name(precision) << " from " << Name(dtype) << (transposed ? " transposed" : "");
        for (int64_t k = kIn; k < PaddedDepth(kIn); ++k) ASSERT_EQ(weight.At(3, k), 0.0F) << "padding";
      }
    }
  }
}

TEST(PackRows, BlockScalesOfASourceAreAppliedByColumn) {
  constexpr int64_t kColumns = 300;
  const std::vector<uint8_t> codes(kColumns, FloatToE4M3(1.0F));
  const float scales[3] = {2.0F, 3.0F, 5.0F};
  const PackSource source{.source = codes.data(),
                          .dtype = DType::kF8E4M3,
                          .row_stride = kColumns,
                          .column_stride = 1,
                          .first_row = 0,
                          .scales = scales,
                          .scale_block = kScaleBlock,
                          .scales_per_row = ScalesPerRow(kScaleBlock, kColumns)};
  HostMatrix weight(Precision::kBf16, 1, kColumns);
  PackRow(SingleLane(), source, weight.view(), 0);
  EXPECT_EQ(weight.At(0, 127), 2.0F);
  EXPECT_EQ(weight.At(0, 128), 3.0F);
  EXPECT_EQ(weight.At(0, 256), 5.0F);
}

TEST(PackRows, BlockScaledCodesAreKeptAndGatheredWithTheirScales) {
  constexpr int64_t kColumns = 300;
  constexpr int64_t kRows = 5;
  std::vector<uint8_t> codes(kRows * kColumns);
  for (size_t i = 0; i < codes.size(); ++i) codes[i] = static_cast<uint8_t>(i * 5 % 0x7F);
  std::vector<float> scales(kRows * 3);
  for (size_t i = 0; i < scales.size(); ++i) scales[i] = 0.5F + static_cast<float>(i);
  const PackSource source{.source = codes.data(),
                          .dtype = DType::kF8E4M3,
                          .row_stride = kColumns,
                          .column_stride = 1,
                          .first_row = 0,
                          .scales = scales.data(),
                          .scale_block = kScaleBlock,
                          .scales_per_row = 3};
  HostMatrix weight(Precision::kFp8, kRows, kColumns, kScaleBlock);
  for (int64_t row = 0; row < kRows; ++row) {
    RunLanes(2, [&](const ThreadLanes& lanes) { PackRow(lanes, source, weight.view(), row); });
  }
  const int32_t id = 3;
  std::vector<float> gathered(kColumns);
  GatherRow(SingleLane(), {weight.view(), &id, gathered.data(), false, 2.0F}, 0);
  for (int64_t k = 0; k < kColumns; ++k) {
    const float value = E4M3ToFloat(codes[static_cast<size_t>(3 * kColumns + k)]);
    ASSERT_EQ(weight.At(3, k), value * scales[static_cast<size_t>(9 + k / kScaleBlock)]) << k;
    ASSERT_EQ(gathered[static_cast<size_t>(k)], weight.At(3, k) * 2.0F) << k;
  }
}

TEST(PackRows, GatherAddsAndGivesZerosForAnUnknownId) {
  const std::vector<float> values = RandomValues(kOut * kIn, 12);
  HostMatrix weight(Precision::kFp32, kOut, kIn);
  for (int64_t row = 0; row < kOut; ++row) {
    std::memcpy(weight.view().row(row), values.data() + row * kIn, kIn * sizeof(float));
  }
  const int32_t ids[] = {2, -1, kOut};
  std::vector<float> rows(3 * kIn, 1.0F);
  const GatherCall call{weight.view(), ids, rows.data(), true, 2.0F};
  for (int64_t i = 0; i < 3; ++i) RunLanes(2, [&](const ThreadLanes& lanes) { GatherRow(lanes, call, i); });
  EXPECT_EQ(rows[5], 1.0F + 2.0F * values[2 * kIn + 5]);
  EXPECT_EQ(rows[kIn + 5], 1.0F);
  EXPECT_EQ(rows[2 * kIn + 5], 1.0F);
}

TEST(PackRows, PartsFitTheStagingAreaWithTheirScales) {
  for (const int64_t in_features : {1, 37, 4096, 53248}) {
    for (const int64_t scale_bytes : {int64_t{0}, int64_t{4}, in_features / 128 * 4 + 4}) {
      const PackParts parts = PartsOf(in_features, 1, in_features, 4, scale_bytes, 1 << 20);
      ASSERT_GE(parts.rows_per_part, 1);
      EXPECT_TRUE(parts.by_rows);
      const int64_t used = RoundUpTo(parts.rows_per_part * in_features * 4, 16) + parts.rows_per_part * scale_bytes;
      EXPECT_LE(used, 1 << 20);
      EXPECT_GT(used + in_features * 4 + scale_bytes + 16, 1 << 20) << "one more row would not fit";
    }
  }
  EXPECT_FALSE(PartsOf(1, 64, 8, 2, 0, 1 << 20).by_rows);
  EXPECT_EQ(PartsOf(3, 64, 8, 2, 0, 1 << 20).rows_per_part, 0) << "neither rows nor columns";
  EXPECT_EQ(PartsOf(1 << 20, 1, 1 << 20, 4, 0, 1 << 20).rows_per_part, 0) << "a row does not fit";
}

}  // namespace
}  // namespace dunlin::kernels::cuda

// SPDX-License-Identifier: Apache-2.0
// Packing from any strides, in parts, and reading back by row gather.
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <numeric>

#include "tests/kernels/cpu/cpu_fixture.h"

namespace dunlin::kernels {
namespace {

using namespace testing_cpu;  // NOLINT: the fixture of this folder

class PackWeight : public CpuVariants {
 protected:
  KernelStatus PackPart(const PackWeightParams& params) { return device_->ops->pack_weight(device_->context, params); }
};

bool SameBytes(const WeightTensor& a, const WeightTensor& b) {
  return a.memory.bytes() == b.memory.bytes() && std::memcmp(a.memory.data(), b.memory.data(), a.memory.bytes()) == 0;
}

TEST_P(PackWeight, GatherReturnsTheRoundedRows) {
  for (const PrecisionTraits& traits : kPrecisionTable) {
    for (const auto& [n, k] : {std::pair{1, 1}, {47, 3}, {48, 256}, {49, 257}, {200, 515}}) {
      auto w = RandomMatrix(n, k, 11);
      if (n > 2) std::fill_n(w.begin() + k, k, 0.0F);  // a zero row keeps its zeros
      const auto weight = Pack(*device_, traits.precision, w, n, k);
      std::vector<int32_t> ids(static_cast<size_t>(n));
      std::iota(ids.rbegin(), ids.rend(), 0);
      std::vector<float> out(w.size(), kNaN);
      const GatherRowsParams params{&weight->weight, ids.data(), out.data(), n, false};
      ASSERT_EQ(device_->ops->gather_rows(device_->context, params), KernelStatus::kOk);
      for (int32_t i = 0; i < n; ++i) {
        const auto expected = RoundedRow(traits.precision, w.data() + ids[static_cast<size_t>(i)] * k, k, true);
        for (int32_t c = 0; c < k; ++c) {
          ASSERT_EQ(out[static_cast<size_t>(i * k + c)], static_cast<float>(expected[static_cast<size_t>(c)]))
              << traits.name;
        }
      }
    }
  }
}

TEST_P(PackWeight, GatherAddsToWhatIsThere) {
  const auto w = RandomMatrix(60, 10, 12);
  const auto weight = Pack(*device_, Precision::kFp32, w, 60, 10);
  const std::vector<int32_t> ids = {59, 0, 59};
  std::vector<float> out(30, 1.5F);
  const GatherRowsParams params{&weight->weight, ids.data(), out.data(), 3, true};
  ASSERT_EQ(device_->ops->gather_rows(device_->context, params), KernelStatus::kOk);
  for (size_t i = 0; i < out.size(); ++i) EXPECT_EQ(out[i], w[static_cast<size_t>(ids[i / 10]) * 10 + i % 10] + 1.5F);
}

TEST_P(PackWeight, GatherRefusesIdsOutsideTheTable) {
  const auto weight = Pack(*device_, Precision::kFp32, RandomMatrix(5, 4, 1), 5, 4);
  std::vector<float> out(8, 3.0F);
  for (const std::vector<int32_t>& ids : {std::vector<int32_t>{0, 5}, {-1, 0}}) {
    const GatherRowsParams params{&weight->weight, ids.data(), out.data(), 2, false};
    EXPECT_EQ(device_->ops->gather_rows(device_->context, params), KernelStatus::kInvalidArgument);
  }
  EXPECT_TRUE(std::all_of(out.begin(), out.end(), [](float value) { return value == 3.0F; }));
}

TEST_P(PackWeight, PartsInAnyOrderAndTransposedSourcesGiveTheSameBytes) {
  constexpr int64_t kN = 150;
  constexpr int64_t kDepth = 301;
  const auto w = RandomMatrix(kN, kDepth, 13);
  std::vector<float> transposed(w.size());
  for (int64_t n = 0; n < kN; ++n) {
    for (int64_t k = 0; k < kDepth; ++k)
      transposed[static_cast<size_t>(k * kN + n)] = w[static_cast<size_t>(n * kDepth + k)];
  }
  for (const PrecisionTraits& traits : kPrecisionTable) {
    const auto whole = Pack(*device_, traits.precision, w, kN, kDepth);
    WeightTensor parts(*device_, traits.precision, kN, kDepth);
    for (const auto& [begin, rows] : {std::pair<int64_t, int64_t>{100, 50}, {0, 30}, {70, 0}, {30, 70}}) {
      ASSERT_EQ(PackPart({&parts.weight, w.data() + begin * kDepth, DType::kF32, kDepth, 1, begin, rows}),
                KernelStatus::kOk);
    }
    EXPECT_TRUE(SameBytes(*whole, parts)) << traits.name;
    WeightTensor conv(*device_, traits.precision, kN, kDepth);
    ASSERT_EQ(PackPart({&conv.weight, transposed.data(), DType::kF32, 1, kN, 0, kN}), KernelStatus::kOk);
    EXPECT_TRUE(SameBytes(*whole, conv)) << traits.name;
  }
}

TEST_P(PackWeight, HalfWidthSourcesPackAsTheirFloats) {
  constexpr int64_t kN = 50;
  constexpr int64_t kDepth = 77;
  const auto w = RandomMatrix(kN, kDepth, 14);
  std::vector<uint16_t> codes(w.size());
  std::vector<float> widened(w.size());
  for (const DType source : {DType::kF16, DType::kBF16}) {
    for (size_t i = 0; i < w.size(); ++i) {
      codes[i] = source == DType::kF16 ? FloatToFp16(w[i]) : FloatToBf16(w[i]);
      widened[i] = source == DType::kF16 ? Fp16ToFloat(codes[i]) : Bf16ToFloat(codes[i]);
    }
    for (const PrecisionTraits& traits : kPrecisionTable) {
      const auto expected = Pack(*device_, traits.precision, widened, kN, kDepth);
      WeightTensor actual(*device_, traits.precision, kN, kDepth);
      ASSERT_EQ(PackPart({&actual.weight, codes.data(), source, kDepth, 1, 0, kN}), KernelStatus::kOk);
      EXPECT_TRUE(SameBytes(*expected, actual)) << traits.name << " from " << Name(source);
      WeightTensor conv(*device_, traits.precision, kN, kDepth);
      std::vector<uint16_t> transposed(codes.size());
      for (size_t i = 0; i < codes.size(); ++i) transposed[i % kDepth * kN + i / kDepth] = codes[i];
      for (const auto& [begin, rows] : {std::pair<int64_t, int64_t>{30, 20}, {0, 30}}) {
        ASSERT_EQ(PackPart({&conv.weight, transposed.data() + begin, source, 1, kN, begin, rows}), KernelStatus::kOk);
      }
      EXPECT_TRUE(SameBytes(*expected, conv)) << traits.name << " from transposed " << Name(source);
    }
  }
}

TEST_P(PackWeight, EveryHalfPacksAsItsFloat) {
  constexpr int64_t kN = 256;
  std::vector<uint16_t> codes(kN * kN);
  std::iota(codes.begin(), codes.end(), uint16_t{0});
  for (const DType source : {DType::kF16, DType::kBF16}) {
    WeightTensor weight(*device_, Precision::kFp32, kN, kN);
    ASSERT_EQ(PackPart({&weight.weight, codes.data(), source, kN, 1, 0, kN}), KernelStatus::kOk);
    std::vector<int32_t> ids(kN);
    std::iota(ids.begin(), ids.end(), 0);
    std::vector<float> out(codes.size());
    const GatherRowsParams params{&weight.weight, ids.data(), out.data(), kN, false};
    ASSERT_EQ(device_->ops->gather_rows(device_->context, params), KernelStatus::kOk);
    for (size_t i = 0; i < codes.size(); ++i) {
      const float expected = source == DType::kF16 ? Fp16ToFloat(codes[i]) : Bf16ToFloat(codes[i]);
      ASSERT_TRUE(std::bit_cast<uint32_t>(out[i]) == std::bit_cast<uint32_t>(expected) ||
                  (std::isnan(out[i]) && std::isnan(expected)))
          << Name(source) << " code " << codes[i];
    }
  }
}

TEST_P(PackWeight, EveryVariantWritesTheSameBytes) {
  const auto portable = Open("portable");
  const auto w = RandomMatrix(100, 130, 15);
  for (const PrecisionTraits& traits : kPrecisionTable) {
    EXPECT_TRUE(
        SameBytes(*Pack(*portable, traits.precision, w, 100, 130), *Pack(*device_, traits.precision, w, 100, 130)));
  }
}

TEST_P(PackWeight, RefusesRowsOutsideTheWeight) {
  WeightTensor weight(*device_, Precision::kFp32, 10, 4);
  const std::vector<float> w(40);
  EXPECT_EQ(PackPart({&weight.weight, w.data(), DType::kF32, 4, 1, 5, 6}), KernelStatus::kInvalidArgument);
  EXPECT_EQ(PackPart({&weight.weight, w.data(), DType::kF32, 4, 1, -1, 2}), KernelStatus::kInvalidArgument);
  EXPECT_EQ(PackPart({&weight.weight, nullptr, DType::kF32, 4, 1, 0, 2}), KernelStatus::kInvalidArgument);
}

DUNLIN_FOR_EVERY_CPU_VARIANT(PackWeight);

}  // namespace
}  // namespace dunlin::kernels

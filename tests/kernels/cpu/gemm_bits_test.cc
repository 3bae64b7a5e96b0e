// SPDX-License-Identifier: Apache-2.0
// The bit contract of GEMM: a row's result is the same bits for every number of rows, of threads, and beside any
// neighbours.
#include <gtest/gtest.h>

#include "tests/kernels/cpu/cpu_fixture.h"

namespace dunlin::kernels {
namespace {

using namespace testing_cpu;  // NOLINT: the fixture of this folder

class GemmBits : public CpuVariants {};

constexpr int32_t kBitsRows = 300;
constexpr int32_t kBitsColumns = 101;
constexpr int32_t kBitsDepth = 1037;  // several slices of K, odd

std::vector<float> RowOf(const std::vector<float>& matrix, int32_t row) {
  return {matrix.begin() + row * kBitsColumns, matrix.begin() + (row + 1) * kBitsColumns};
}

bool SameBits(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

// Each row alone.
std::vector<std::vector<float>> RowsAlone(Device& device, const PackedWeight& weight, const std::vector<float>& a) {
  std::vector<std::vector<float>> rows;
  for (int32_t row = 0; row < kBitsRows; ++row) {
    const std::vector<float> one(a.begin() + row * kBitsDepth, a.begin() + (row + 1) * kBitsDepth);
    const auto activation = Quantized(device, weight.precision, one, 1, kBitsDepth);
    rows.push_back(RunGemm(device, activation->activation, weight, 1));
  }
  return rows;
}

TEST_P(GemmBits, ARowIsTheSameForEveryNumberOfRowsAndThreads) {
  const auto a = RandomMatrix(kBitsRows, kBitsDepth, 5);
  const auto w = RandomMatrix(kBitsColumns, kBitsDepth, 6);
  const auto one_thread = Open(GetParam(), 1);
  const auto many_threads = Open(GetParam(), 5);
  for (const PrecisionTraits& traits : kPrecisionTable) {
    const auto weight = Pack(*device_, traits.precision, w, kBitsColumns, kBitsDepth);
    const auto alone = RowsAlone(*device_, weight->weight, a);
    for (const int32_t rows : {2, 3, 4, 5, 6, 7, 8, 9, 10, 17, 64, 127, 129, kBitsRows}) {
      for (Device* device : {one_thread.get(), device_.get(), many_threads.get()}) {
        const auto activation = Quantized(*device, traits.precision, a, rows, kBitsDepth);
        const auto out = RunGemm(*device, activation->activation, weight->weight, rows);
        for (int32_t row = 0; row < rows; ++row) {
          ASSERT_TRUE(SameBits(RowOf(out, row), alone[static_cast<size_t>(row)]))
              << traits.name << " row " << row << " of " << rows << ", " << device->description;
        }
      }
    }
  }
}

TEST_P(GemmBits, ARowIsTheSameBesideNanAndInfinity) {
  const auto clean = RandomMatrix(kBitsRows, kBitsDepth, 7);
  const auto w = RandomMatrix(kBitsColumns, kBitsDepth, 8);
  for (const PrecisionTraits& traits : kPrecisionTable) {
    const auto weight = Pack(*device_, traits.precision, w, kBitsColumns, kBitsDepth);
    for (const int32_t rows : {2, 5, 8, 17, 64}) {
      const std::vector<float> part(clean.begin(), clean.begin() + rows * kBitsDepth);
      auto dirty = part;
      for (int32_t row = 1; row < rows; row += 2) {
        dirty[static_cast<size_t>(row * kBitsDepth + row)] =
            row % 4 == 1 ? kNaN : std::numeric_limits<float>::infinity();
      }
      const auto expected_in = Quantized(*device_, traits.precision, part, rows, kBitsDepth);
      const auto actual_in = Quantized(*device_, traits.precision, dirty, rows, kBitsDepth);
      const auto expected = RunGemm(*device_, expected_in->activation, weight->weight, rows);
      const auto actual = RunGemm(*device_, actual_in->activation, weight->weight, rows);
      for (int32_t row = 0; row < rows; ++row) {
        if (row % 2 == 0) {
          ASSERT_TRUE(SameBits(RowOf(actual, row), RowOf(expected, row)))
              << traits.name << " row " << row << " of " << rows;
        } else {
          ASSERT_FALSE(std::isfinite(RowOf(actual, row)[0])) << traits.name << " row " << row << " of " << rows;
        }
      }
    }
  }
}

TEST_P(GemmBits, AColumnIsTheSameInAnyWeightThatHoldsIt) {
  const auto a = RandomMatrix(9, kBitsDepth, 9);
  const auto w = RandomMatrix(kBitsColumns, kBitsDepth, 10);
  const std::vector<float> last(w.end() - kBitsDepth, w.end());
  for (const PrecisionTraits& traits : kPrecisionTable) {
    const auto whole = Pack(*device_, traits.precision, w, kBitsColumns, kBitsDepth);
    const auto single = Pack(*device_, traits.precision, last, 1, kBitsDepth);
    for (const int32_t rows : {1, 9}) {
      const auto activation = Quantized(*device_, traits.precision, a, rows, kBitsDepth);
      const auto expected = RunGemm(*device_, activation->activation, whole->weight, rows);
      const auto actual = RunGemm(*device_, activation->activation, single->weight, rows);
      for (int32_t row = 0; row < rows; ++row) {
        ASSERT_EQ(actual[static_cast<size_t>(row)], RowOf(expected, row).back()) << traits.name;
      }
    }
  }
}

// Sums below the normal numbers, which some instructions make zeros of either sign.
TEST_P(GemmBits, ARowIsTheSameWhereSumsUnderflow) {
  auto a = RandomMatrix(kBitsRows, kBitsDepth, 11);
  auto w = RandomMatrix(kBitsColumns, kBitsDepth, 12);
  for (float& value : a) value *= 0x1p-64F;
  for (float& value : w) value *= 0x1p-64F;
  for (const Precision precision : {Precision::kFp32, Precision::kBf16}) {
    const auto weight = Pack(*device_, precision, w, kBitsColumns, kBitsDepth);
    const auto alone = RowsAlone(*device_, weight->weight, a);
    for (const int32_t rows : {2, 3, 7, 64}) {
      const auto activation = Quantized(*device_, precision, a, rows, kBitsDepth);
      const auto out = RunGemm(*device_, activation->activation, weight->weight, rows);
      for (int32_t row = 0; row < rows; ++row) {
        ASSERT_TRUE(SameBits(RowOf(out, row), alone[static_cast<size_t>(row)])) << "row " << row << " of " << rows;
      }
    }
  }
}

DUNLIN_FOR_EVERY_CPU_VARIANT(GemmBits);

}  // namespace
}  // namespace dunlin::kernels

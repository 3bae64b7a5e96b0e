// SPDX-License-Identifier: Apache-2.0
// The bit contract of GEMM: a row's result is the same bits for every number of rows, of threads, and beside any
// neighbours.
#include <gtest/gtest.h>

#include "tests/kernels/cpu/cpu_fixture.h"

namespace dunlin::kernels {
namespace {

using namespace testing_cpu;  // NOLINT: the fixture of this folder

class GemmBits : public CpuVariants {};

constexpr int32_t kRowsMax = 300;
constexpr int32_t kN = 101;
constexpr int32_t kDepth = 1037;  // several slices of K, odd

std::vector<float> RowOf(const std::vector<float>& matrix, int32_t row) {
  return {matrix.begin() + row * kN, matrix.begin() + (row + 1) * kN};
}

bool SameBits(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

// Each row alone.
std::vector<std::vector<float>> RowsAlone(Device& device, const PackedWeight& weight, const std::vector<float>& a) {
  std::vector<std::vector<float>> rows;
  for (int32_t row = 0; row < kRowsMax; ++row) {
    const std::vector<float> one(a.begin() + row * kDepth, a.begin() + (row + 1) * kDepth);
    const auto activation = Quantized(device, weight.precision, one, 1, kDepth);
    rows.push_back(RunGemm(device, activation->activation, weight, 1));
  }
  return rows;
}

TEST_P(GemmBits, ARowIsTheSameForEveryNumberOfRowsAndThreads) {
  const auto a = RandomMatrix(kRowsMax, kDepth, 5);
  const auto w = RandomMatrix(kN, kDepth, 6);
  const auto one_thread = Open(GetParam(), 1);
  const auto many_threads = Open(GetParam(), 5);
  for (const PrecisionTraits& traits : kPrecisionTable) {
    const auto weight = Pack(*device_, traits.precision, w, kN, kDepth);
    const auto alone = RowsAlone(*device_, weight->weight, a);
    for (const int32_t rows : {2, 3, 4, 5, 6, 7, 8, 9, 10, 17, 64, 127, 129, kRowsMax}) {
      for (Device* device : {one_thread.get(), device_.get(), many_threads.get()}) {
        const auto activation = Quantized(*device, traits.precision, a, rows, kDepth);
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
  const auto clean = RandomMatrix(kRowsMax, kDepth, 7);
  const auto w = RandomMatrix(kN, kDepth, 8);
  for (const PrecisionTraits& traits : kPrecisionTable) {
    const auto weight = Pack(*device_, traits.precision, w, kN, kDepth);
    for (const int32_t rows : {2, 5, 8, 17, 64}) {
      const std::vector<float> part(clean.begin(), clean.begin() + rows * kDepth);
      auto dirty = part;
      for (int32_t row = 1; row < rows; row += 2) {
        dirty[static_cast<size_t>(row * kDepth + row)] = row % 4 == 1 ? kNaN : std::numeric_limits<float>::infinity();
      }
      const auto expected_in = Quantized(*device_, traits.precision, part, rows, kDepth);
      const auto actual_in = Quantized(*device_, traits.precision, dirty, rows, kDepth);
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
  const auto a = RandomMatrix(9, kDepth, 9);
  const auto w = RandomMatrix(kN, kDepth, 10);
  const std::vector<float> last(w.end() - kDepth, w.end());
  for (const PrecisionTraits& traits : kPrecisionTable) {
    const auto whole = Pack(*device_, traits.precision, w, kN, kDepth);
    const auto single = Pack(*device_, traits.precision, last, 1, kDepth);
    for (const int32_t rows : {1, 9}) {
      const auto activation = Quantized(*device_, traits.precision, a, rows, kDepth);
      const auto expected = RunGemm(*device_, activation->activation, whole->weight, rows);
      const auto actual = RunGemm(*device_, activation->activation, single->weight, rows);
      for (int32_t row = 0; row < rows; ++row) {
        ASSERT_EQ(actual[static_cast<size_t>(row)], RowOf(expected, row).back()) << traits.name;
      }
    }
  }
}

DUNLIN_FOR_EVERY_CPU_VARIANT(GemmBits);

}  // namespace
}  // namespace dunlin::kernels

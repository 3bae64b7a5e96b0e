// SPDX-License-Identifier: Apache-2.0
// The portable variant computes the same bits on every architecture: digests of its products, roundings and norms, as
// x86-64 has them. (Attention: dense_attention_test.cc has a plain loop for each bit.)
#include <gtest/gtest.h>

#include <bit>

#include "tests/kernels/cpu/cpu_fixture.h"

namespace dunlin::kernels {
namespace {

using namespace testing_cpu;  // NOLINT: the fixture of this folder

// Multiples of 2^-24 in [-1/2, 1/2): of integers alone, because distributions of the library call its logarithm.
std::vector<float> UniformMatrix(int64_t rows, int64_t columns, uint32_t seed) {
  std::mt19937 generator(seed);
  std::vector<float> values(static_cast<size_t>(rows * columns));
  for (float& value : values) value = static_cast<float>(generator() >> 8) * 0x1p-24F - 0.5F;
  return values;
}

// FNV-1a of the floats' bits.
uint64_t Digest(const std::vector<float>& values) {
  uint64_t digest = 0xCBF29CE484222325U;
  for (const float value : values) digest = (digest ^ std::bit_cast<uint32_t>(value)) * 0x100000001B3U;
  return digest;
}

TEST(PortableBits, ProductsOfEveryPrecision) {
  const auto device = Open("portable");
  const struct {
    Precision precision;
    uint64_t few_rows;
    uint64_t many_rows;
  } rows[] = {
      {Precision::kFp32, 0xB4EB778D3DD42AB6, 0x4A1C302B90E652EF},
      {Precision::kBf16, 0x5FEB89D5C972A14D, 0x4B26BFF205439D5C},
      {Precision::kFp16, 0xA20154D4B7D9E89B, 0x771D42BB0E6D510A},
      {Precision::kFp8, 0xFA0C363CDA0C8728, 0xC77053EFB03A676B},
      {Precision::kInt8, 0x88692D3450A42EA3, 0xD6875DF7AF8D0274},
      {Precision::kInt4, 0x823B34E3FBB56651, 0x85671AA41BF4E285},
  };
  ASSERT_EQ(std::size(rows), std::size(kPrecisionTable));
  for (const auto& [precision, few_rows, many_rows] : rows) {
    const auto digest_of = [&, of = precision](const GemmShape& shape) {
      const auto [m, n, k] = shape;
      const auto weight = Pack(*device, of, UniformMatrix(n, k, 1), n, k);
      const auto activation = Quantized(*device, of, UniformMatrix(m, k, 2), m, k);
      const auto bias = UniformMatrix(1, n, 3);
      return Digest(RunGemm(*device, activation->activation, weight->weight, m, bias.data()));
    };
    EXPECT_EQ(digest_of({3, 97, 259}), few_rows) << Traits(precision).name;
    EXPECT_EQ(digest_of({70, 49, 1030}), many_rows) << Traits(precision).name;
  }
}

TEST(PortableBits, Norms) {
  const auto device = Open("portable");
  const auto in = UniformMatrix(5, 771, 4);
  const auto weight = UniformMatrix(1, 771, 5);
  const struct {
    NormKind kind;
    uint64_t digest;
  } rows[] = {{NormKind::kLayerNorm, 0x96145AF43A8162B2}, {NormKind::kRmsNorm, 0xB67A9B5F4CF27CBB}};
  for (const auto& [kind, digest] : rows) {
    ActivationTensor normed(*device, Precision::kFp32, 5, 771);
    const NormParams params{kind, in.data(), nullptr, weight.data(), nullptr, 1e-5F, &normed.activation, 5};
    ASSERT_EQ(device->ops->norm(device->context, params), KernelStatus::kOk);
    std::vector<float> out;
    for (int row = 0; row < 5; ++row) {
      for (const double value : StoredRow(*device, normed.activation, row)) out.push_back(static_cast<float>(value));
    }
    EXPECT_EQ(Digest(out), digest);
  }
}

}  // namespace
}  // namespace dunlin::kernels

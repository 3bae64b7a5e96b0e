// SPDX-License-Identifier: Apache-2.0
// Every variant's vector rounding against the scalar functions, bit for bit.
#include <gtest/gtest.h>

#include <bit>

#include "tests/kernels/cpu/cpu_fixture.h"

namespace dunlin::kernels {
namespace {

using namespace testing_cpu;  // NOLINT: the fixture of this folder

class Rounding : public CpuVariants {
 protected:
  const cpu::KernelTable& kernels() const { return cpu::ContextOf(device_->context).kernels; }
};

// All BF16 values, each also one unit of FP32 below and above, the ties between BF16 values, and random bit patterns.
std::vector<float> AllKindsOfFloats() {
  std::vector<float> values;
  for (uint32_t high = 0; high <= 0xFFFF; ++high) {
    for (const uint32_t low : {0x0000U, 0x0001U, 0x7FFFU, 0x8000U, 0x8001U, 0xFFFFU}) {
      values.push_back(std::bit_cast<float>(high << 16 | low));
    }
  }
  std::mt19937 generator(3);
  for (int i = 0; i < 200000; ++i) values.push_back(std::bit_cast<float>(static_cast<uint32_t>(generator())));
  values.push_back(1.0F);  // an odd length: the last vector is partial
  return values;
}

TEST_P(Rounding, EqualsTheScalarFunctionsForAllKindsOfFloats) {
  const std::vector<float> in = AllKindsOfFloats();
  const auto n = static_cast<int64_t>(in.size());
  std::vector<uint16_t> bf16(in.size() + 1, 0xABCD);
  std::vector<uint16_t> fp16(in.size() + 1, 0xABCD);
  std::vector<uint8_t> e4m3(in.size() + 1, 0xAB);
  kernels().to_bf16(in.data(), n, bf16.data());
  kernels().to_fp16(in.data(), n, fp16.data());
  kernels().to_e4m3(in.data(), 1.0F, n, e4m3.data());
  for (size_t i = 0; i < in.size(); ++i) {
    ASSERT_EQ(bf16[i], FloatToBf16(in[i])) << std::hex << std::bit_cast<uint32_t>(in[i]);
    ASSERT_EQ(fp16[i], FloatToFp16(in[i])) << std::hex << std::bit_cast<uint32_t>(in[i]);
    ASSERT_EQ(e4m3[i], FloatToE4M3(in[i])) << std::hex << std::bit_cast<uint32_t>(in[i]);
  }
  EXPECT_EQ(bf16.back(), 0xABCD);
  EXPECT_EQ(fp16.back(), 0xABCD);
  EXPECT_EQ(e4m3.back(), 0xAB);
}

TEST_P(Rounding, ActivationRowsHoldTheSameValuesAlsoInPlace) {
  const std::vector<float> in = AllKindsOfFloats();
  const auto n = static_cast<int64_t>(in.size());
  const auto expect_row = [&](const std::vector<float>& row, auto&& rounded) {
    const auto* bytes = reinterpret_cast<const std::byte*>(row.data());
    const size_t element = kernels().bf16_row_bytes;
    for (size_t i = 0; i < in.size(); ++i) {
      uint32_t bits = 0;
      std::memcpy(&bits, bytes + i * element, element);
      const uint32_t expected = std::bit_cast<uint32_t>(rounded(in[i]));
      ASSERT_EQ(element == 2 ? bits << 16 : bits, expected) << std::hex << std::bit_cast<uint32_t>(in[i]);
    }
  };
  std::vector<float> row = in;
  kernels().bf16_row(row.data(), n, row.data());
  expect_row(row, [](float value) { return Bf16ToFloat(FloatToBf16(value)); });
  row = in;
  kernels().fp8_row(row.data(), 1.0F, n, row.data());
  expect_row(row, [](float value) { return E4M3ToFloat(FloatToE4M3(value)); });
}

TEST_P(Rounding, E4M3MultipliesByTheFactorFirst) {
  const auto in = RandomMatrix(1, 1001, 4);
  std::vector<uint8_t> codes(in.size());
  kernels().to_e4m3(in.data(), 37.5F, 1001, codes.data());
  for (size_t i = 0; i < in.size(); ++i) ASSERT_EQ(codes[i], FloatToE4M3(in[i] * 37.5F));
}

TEST_P(Rounding, LargestMagnitudePutsNanAboveInfinityAboveNumbers) {
  for (const int64_t n : {1, 15, 16, 17, 100}) {
    auto in = RandomMatrix(1, n, 5);
    auto& last = in.back();
    last = -50.0F;
    EXPECT_EQ(kernels().max_magnitude_bits(in.data(), n), std::bit_cast<uint32_t>(50.0F));
    last = -std::numeric_limits<float>::infinity();
    EXPECT_EQ(kernels().max_magnitude_bits(in.data(), n), 0x7F800000U);
    in.front() = kNaN;
    EXPECT_GT(kernels().max_magnitude_bits(in.data(), n), 0x7F800000U);
  }
}

DUNLIN_FOR_EVERY_CPU_VARIANT(Rounding);

}  // namespace
}  // namespace dunlin::kernels

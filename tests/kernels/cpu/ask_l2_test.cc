// Products whose kernels ask memory for lines into L2 against those that ask into L1: the same bits on any processor,
// of which each takes but one of the two.
#include <gtest/gtest.h>

#include <cstring>
#include <string>
#include <vector>

#include "kernels/cpu/avx512/kernels.h"
#include "kernels/cpu/cpu_features.h"
#include "kernels/cpu/memory.h"

namespace dunlin::kernels::cpu {
namespace {

constexpr int64_t kDepth = 1544;  // three whole slices and a part of one
constexpr int32_t kColumns = 2 * 48 + 17;
constexpr int64_t kPanels = 3;

struct Product {
  const char* name;
  void (*into_l1)(const GemmBlock&);
  void (*into_l2)(const GemmBlock&);
  int64_t activation_bytes;  // of an element
  int64_t weight_bytes;
};
constexpr Product kProducts[] = {
    {"fp32", avx512::GemmFp32, avx512::GemmFp32AskL2, 4, 4},
    {"fp16", avx512::GemmFp16, avx512::GemmFp16AskL2, 4, 2},
    {"bf16", avx512::GemmBf16Dot, avx512::GemmBf16DotAskL2, 2, 2},
    {"fp8", avx512::GemmFp8Dot, avx512::GemmFp8DotAskL2, 2, 1},
};

// Words that are finite numbers as FP32, two FP16 or BF16, or four E4M3.
void Fill(const MemoryBlock& memory, size_t bytes) {
  uint32_t state = 1;
  for (size_t at = 0; at + 4 <= bytes; at += 4) {
    state = state * 1664525U + 1013904223U;
    const uint32_t word = (state & 0x80778077U) | 0x3F003F00U;
    std::memcpy(memory.data() + at, &word, 4);
  }
}

std::vector<float> Multiply(const Product& product, void (*gemm)(const GemmBlock&), int32_t rows) {
  const auto activation_bytes = static_cast<size_t>(rows * kDepth * product.activation_bytes);
  const auto panel_bytes = static_cast<size_t>(kDepth * 48 * product.weight_bytes);
  const MemoryBlock activation(activation_bytes);
  const MemoryBlock panels(kPanels * panel_bytes);
  const MemoryBlock scratch(kScratchBytes);
  Fill(activation, activation_bytes);
  Fill(panels, kPanels * panel_bytes);
  const std::vector<float> scales(kPanels * 48 + static_cast<size_t>(rows), 0.75F);
  std::vector<float> out(static_cast<size_t>(rows) * kColumns);
  const bool scaled = product.weight_bytes == 1;
  gemm({.activation = activation.data(),
        .activation_stride = activation_bytes / static_cast<size_t>(rows),
        .activation_scale = scaled ? scales.data() : nullptr,
        .panels = panels.data(),
        .panel_bytes = panel_bytes,
        .weight_scale = scaled ? scales.data() : nullptr,
        .scales_per_row = 1,
        .padded_depth = kDepth,
        .bias = nullptr,
        .residual = nullptr,
        .out = out.data(),
        .out_stride = kColumns,
        .rows = rows,
        .columns = kColumns,
        .scratch = scratch.data()});
  return out;
}

TEST(AskL2Test, ProductsHaveTheSameBits) {
  if (!HasAvx512Bf16Variant()) GTEST_SKIP() << "no AVX512_BF16";
  for (const Product& product : kProducts) {
    for (const int32_t rows : {1, 3, 4, 7, 8, 9, 16, 23, 24, 25, 48, 49, 100, 256}) {
      SCOPED_TRACE(std::string(product.name) + ", rows " + std::to_string(rows));
      const std::vector<float> expected = Multiply(product, product.into_l1, rows);
      const std::vector<float> got = Multiply(product, product.into_l2, rows);
      EXPECT_NE(expected.front(), 0.0F);
      EXPECT_EQ(std::memcmp(expected.data(), got.data(), expected.size() * sizeof(float)), 0);
    }
  }
}

}  // namespace
}  // namespace dunlin::kernels::cpu

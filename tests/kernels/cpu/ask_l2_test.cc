// Products whose kernels ask memory for lines into L2, and widen weights beside the products of few rows, against the
// others: the same bits on any processor, of which each takes but one of the two. Sanitizers that do not see what an
// asm reads build both of the same instructions.
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
constexpr int64_t kDepthBlocks = (kDepth + kScaleBlock - 1) / kScaleBlock;

struct Product {
  const char* name;
  void (*into_l1)(const GemmBlock&);
  void (*into_l2)(const GemmBlock&);
  int64_t activation_bytes;  // of an element
  int64_t weight_bytes;
  int64_t scales_per_row = 1;
};
constexpr Product kProducts[] = {
    {"fp32", avx512::GemmFp32, avx512::GemmFp32AskL2, 4, 4},
    {"fp16", avx512::GemmFp16, avx512::GemmFp16AskL2, 4, 2},
    {"bf16", avx512::GemmBf16Dot, avx512::GemmBf16DotAskL2, 2, 2},
    {"fp8", avx512::GemmFp8Dot, avx512::GemmFp8DotAskL2, 2, 1},
    {"fp8 in blocks", avx512::GemmFp8Dot, avx512::GemmFp8DotAskL2, 2, 1, kDepthBlocks},
};

// Which bits of a word are random and which are set: finite numbers as FP32, two FP16 or BF16, or four E4M3.
struct Pattern {
  const char* name;
  uint32_t random;
  uint32_t set;
};
constexpr Pattern kOrdinary = {"ordinary", 0x80778077U, 0x3F003F00U};
// Zeros and subnormals of both signs, of E4M3 every exponent too.
constexpr Pattern kSmall = {"small", 0x83F783F7U, 0};

void Fill(const MemoryBlock& memory, size_t bytes, const Pattern& pattern) {
  uint32_t state = 1;
  for (size_t at = 0; at + 4 <= bytes; at += 4) {
    state = state * 1664525U + 1013904223U;
    const uint32_t word = ((state >> 16 | state << 16) & pattern.random) | pattern.set;
    std::memcpy(memory.data() + at, &word, 4);
  }
}

std::vector<float> Multiply(const Product& product, void (*gemm)(const GemmBlock&), int32_t rows,
                            const Pattern& weights) {
  const auto activation_bytes = static_cast<size_t>(rows * kDepth * product.activation_bytes);
  const auto panel_bytes = static_cast<size_t>(kDepth * 48 * product.weight_bytes);
  const MemoryBlock activation(activation_bytes);
  const MemoryBlock panels(kPanels * panel_bytes);
  const MemoryBlock scratch(kScratchBytes);
  Fill(activation, activation_bytes, kOrdinary);
  Fill(panels, kPanels * panel_bytes, weights);
  std::vector<float> scales(static_cast<size_t>((kPanels * 48 + rows) * product.scales_per_row));
  for (size_t i = 0; i < scales.size(); ++i) scales[i] = 0.75F + static_cast<float>(i % 7);
  std::vector<float> out(static_cast<size_t>(rows) * kColumns);
  const bool scaled = product.weight_bytes == 1;
  gemm({.activation = activation.data(),
        .activation_stride = activation_bytes / static_cast<size_t>(rows),
        .activation_scale = scaled ? scales.data() : nullptr,
        .panels = panels.data(),
        .panel_bytes = panel_bytes,
        .weight_scale = scaled ? scales.data() : nullptr,
        .scales_per_row = product.scales_per_row,
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
    for (const Pattern* weights : {&kOrdinary, &kSmall}) {
      for (const int32_t rows : {1, 2, 3, 4, 5, 6, 7, 8, 9, 16, 23, 24, 25, 48, 49, 100, 256}) {
        SCOPED_TRACE(std::string(product.name) + ", " + weights->name + " weights, rows " + std::to_string(rows));
        const std::vector<float> expected = Multiply(product, product.into_l1, rows, *weights);
        const std::vector<float> got = Multiply(product, product.into_l2, rows, *weights);
        EXPECT_TRUE(expected.front() != 0.0F || weights == &kSmall);
        EXPECT_EQ(std::memcmp(expected.data(), got.data(), expected.size() * sizeof(float)), 0);
      }
    }
  }
}

}  // namespace
}  // namespace dunlin::kernels::cpu

// SPDX-License-Identifier: Apache-2.0
#include "engine/model/checkpoint/gguf/ggml_types.h"

#include "engine/model/checkpoint/gguf/ggml_blocks.h"
#include "engine/model/checkpoint/gguf/ggml_iq_codes.h"

namespace dunlin::engine {
namespace {

using kernels::DType;

constexpr GgmlType Floats(uint32_t id, uint32_t bytes, const char* name, DType dtype) {
  return {id, 1, bytes, nullptr, {name, bytes * 8, dtype}};
}
constexpr GgmlType Blocks(uint32_t id, uint32_t elements, uint32_t bytes, const char* name, DequantizeBlocks function) {
  return {id, elements, bytes, function, {name, 32, DType::kF32}};
}
constexpr const char* kLoadedTypes = "F32, F16, BF16, Q4_0 to Q8_0, Q2_K to Q6_K, IQ1_S to IQ4_XS, IQ4_NL and MXFP4";

// Known by its size alone; `bits` of an element are never read.
constexpr GgmlType Refused(uint32_t id, uint32_t elements, uint32_t bytes, const char* name) {
  return {id, elements, bytes, nullptr, {name, 8, {}, kLoadedTypes}};
}

constexpr GgmlType kTypes[] = {
    Floats(0, 4, "F32", DType::kF32),
    Floats(1, 2, "F16", DType::kF16),
    Blocks(2, 32, 18, "Q4_0", &DequantizeQ4Type0),
    Blocks(3, 32, 20, "Q4_1", &DequantizeQ4Type1),
    Blocks(6, 32, 22, "Q5_0", &DequantizeQ5Type0),
    Blocks(7, 32, 24, "Q5_1", &DequantizeQ5Type1),
    Blocks(8, 32, 34, "Q8_0", &DequantizeQ8Type0),
    Refused(9, 32, 40, "Q8_1"),
    Blocks(10, 256, 84, "Q2_K", &DequantizeQ2K),
    Blocks(11, 256, 110, "Q3_K", &DequantizeQ3K),
    Blocks(12, 256, 144, "Q4_K", &DequantizeQ4K),
    Blocks(13, 256, 176, "Q5_K", &DequantizeQ5K),
    Blocks(14, 256, 210, "Q6_K", &DequantizeQ6K),
    Refused(15, 256, 292, "Q8_K"),
    Blocks(16, 256, 66, "IQ2_XXS", &DequantizeCodes<UnpackIq2Xxs, 66, 32>),
    Blocks(17, 256, 74, "IQ2_XS", &DequantizeCodes<UnpackIq2Xs, 74, 16>),
    Blocks(18, 256, 98, "IQ3_XXS", &DequantizeCodes<UnpackIq3Xxs, 98, 32>),
    Blocks(19, 256, 50, "IQ1_S", &DequantizeCodes<UnpackIq1S, 50, 32>),
    Blocks(20, 32, 18, "IQ4_NL", &DequantizeIq4Nl),
    Blocks(21, 256, 110, "IQ3_S", &DequantizeCodes<UnpackIq3S, 110, 32>),
    Blocks(22, 256, 82, "IQ2_S", &DequantizeCodes<UnpackIq2S, 82, 16>),
    Blocks(23, 256, 136, "IQ4_XS", &DequantizeCodes<UnpackIq4Xs, 136, 32>),
    Refused(24, 1, 1, "I8"),
    Refused(25, 1, 2, "I16"),
    Refused(26, 1, 4, "I32"),
    Refused(27, 1, 8, "I64"),
    Refused(28, 1, 8, "F64"),
    Blocks(29, 256, 56, "IQ1_M", &DequantizeCodes<UnpackIq1M, 56, 16>),
    Floats(30, 2, "BF16", DType::kBF16),
    Refused(34, 256, 54, "TQ1_0"),
    Refused(35, 256, 66, "TQ2_0"),
    Blocks(39, 32, 17, "MXFP4", &DequantizeMxFp4),
    Refused(40, 64, 36, "NVFP4"),
    Refused(41, 128, 18, "Q1_0"),
};

}  // namespace

const GgmlType* FindGgmlType(uint32_t id) {
  for (const GgmlType& row : kTypes) {
    if (row.id == id) return &row;
  }
  return nullptr;
}

}  // namespace dunlin::engine

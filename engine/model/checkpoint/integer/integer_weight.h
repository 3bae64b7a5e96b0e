// SPDX-License-Identifier: Apache-2.0
// The tensors that hold one quantised weight of a checkpoint: integer codes, scales, zero points, the groups of
// columns. Value of element (n, k) of W [rows, columns]: (table[code] - zero point) * scale of the group of column k in
// row n. Sources: compressed-tensors 0.20 (pack-quantized, int-quantized), AutoGPTQ and GPTQModel (gptq, gptq_v2),
// AutoAWQ (gemm), bitsandbytes 0.48 (4 bit and int8), torchao 0.18 (Int8Tensor).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/model/checkpoint/tensor_source.h"

namespace dunlin::engine {

enum class IntegerLayout : uint8_t {
  kNone,    // the checkpoint's weights are not integers
  kPacked,  // compressed-tensors: weight_packed I32 [rows, words], or weight I8 [rows, columns]; scales [rows, groups]
  kGptq,    // qweight I32 [words of columns, rows]; scales [groups, rows]; zero points packed along the rows
  kAwq,     // qweight I32 [columns, words of rows], the eight rows of a word in the order of kAwqOrder; else as GPTQ
  kBits4Map,  // bitsandbytes: weight U8, two codes a byte in row-major order, the first in the upper half; a table
  kInt8Rows,  // bitsandbytes: weight I8 [rows, columns], SCB [rows]: value = code * SCB / 127
  kTorchao,   // _weight_qdata I8 [rows, columns]; _weight_scale and _weight_zero_point (I8) [rows, groups]
};

// What a quantization_config says of the layout.
struct IntegerQuantization {
  IntegerLayout layout = IntegerLayout::kNone;
  int32_t bits = 0;         // of a code: 4 or 8; 0: the tensors' shapes say
  int32_t zero_offset = 0;  // added to stored zero points (1 in GPTQ's first version)
  int64_t group_size = 0;   // columns of a group, of which a row's last may have fewer; -1: all; 0: the shapes say
};

// Tensors belong to the source; null where the weight has none.
struct IntegerWeight {
  std::string name;  // of the plain tensor that it stands for: "model.layers.0.mlp.up_proj.weight"
  IntegerLayout layout = IntegerLayout::kNone;
  int64_t rows = 0;
  int64_t columns = 0;
  int32_t bits = 0;
  int32_t zero_offset = 0;
  int64_t num_groups = 0;  // of a row; group g has columns [g, g + 1) * group, unless group_index says otherwise
  int64_t group = 0;       // columns
  const TensorInfo* codes = nullptr;
  const TensorInfo* scales = nullptr;       // F32, F16 or BF16; kBits4Map: U8 where they are quantised themselves
  const TensorInfo* zeros = nullptr;        // null: codes are symmetric
  const TensorInfo* group_index = nullptr;  // I32 [columns]
  const TensorInfo* table = nullptr;        // kBits4Map: F32 [16]
  // kBits4Map with quantised scales: scale = scale_table[code] * nested_scales[i / nested_group] + scale_offset.
  const TensorInfo* nested_scales = nullptr;
  const TensorInfo* scale_table = nullptr;
  int64_t nested_group = 0;
  float scale_offset = 0.0F;
  std::vector<const TensorInfo*> others;  // read while the checkpoint is opened (shapes), or not at all
};

// Every quantised weight of the source, in the order of the files. Reads the small tensors that hold shapes.
// INVALID_ARGUMENT names the tensor, its shape or dtype, and what it must be.
absl::StatusOr<std::vector<IntegerWeight>> FindIntegerWeights(const IntegerQuantization& quantization,
                                                              const TensorSource& source);

}  // namespace dunlin::engine

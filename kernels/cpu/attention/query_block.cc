// Loading of packed query rows and storing of output rows.
#include "kernels/cpu/attention/query_block.h"

#include <cstring>

#include "kernels/api/float_formats.h"

namespace dunlin::kernels::cpu {
namespace {

template <typename Byte>
int64_t RowOffset(const AttentionCall& call, const QueryBlock& block, const RowTensor<Byte>& tensor, int r) {
  const int64_t row = block.first_row + r;
  const int64_t head = block.kv_head * int64_t{call.group} + row % call.group;
  return row / call.group * tensor.token_stride + head * tensor.head_stride;
}

float ReadElement(const RowTensor<const std::byte>& tensor, int64_t index) {
  switch (tensor.dtype) {
    case DType::kF32: return reinterpret_cast<const float*>(tensor.data)[index];
    case DType::kF16: return Fp16ToFloat(reinterpret_cast<const uint16_t*>(tensor.data)[index]);
    default: return Bf16ToFloat(reinterpret_cast<const uint16_t*>(tensor.data)[index]);
  }
}

}  // namespace

void LoadQueryBlock(const AttentionCall& call, const SequenceView& sequence, int32_t kv_head, int64_t first_row,
                    int rows, std::byte* packed_q, QueryBlock* block) {
  *block = {.kv_head = kv_head, .first_row = first_row, .rows = rows, .max_limit = 0, .limits = {}, .q = packed_q};
  const int64_t row_bytes = QueryRowBytes(call.head_dim());
  const bool round = call.layout.dtype == DType::kBF16;
  std::memset(packed_q, 0, static_cast<size_t>(rows * row_bytes));
  for (int r = 0; r < rows; ++r) {
    block->limits[r] = sequence.KeyLimit(static_cast<int32_t>((first_row + r) / call.group));
    if (call.query_sign == 0.0F) continue;
    const int64_t start = sequence.query_offset + RowOffset(call, *block, call.query, r);
    std::byte* row = packed_q + r * row_bytes;
    for (int32_t d = 0; d < call.head_dim(); ++d) {
      const float value = ReadElement(call.query, start + d) * call.query_sign;
      if (call.ops->bf16_pairs) {
        reinterpret_cast<uint16_t*>(row)[d] = FloatToBf16(value);
      } else {
        reinterpret_cast<float*>(row)[d] = round ? Bf16ToFloat(FloatToBf16(value)) : value;
      }
    }
  }
  block->max_limit = block->limits[rows - 1];
}

int TileLimits(const QueryBlock& block, int32_t first, int32_t width, int32_t* valid) {
  int first_row = block.rows;
  for (int r = block.rows - 1; r >= 0; --r) {
    valid[r] = std::clamp(block.limits[r] - first, 0, width);
    if (valid[r] > 0) first_row = r;
  }
  return first_row;
}

void StoreOutputRow(const AttentionCall& call, const SequenceView& sequence, const QueryBlock& block, int r,
                    const float* o, float sum) {
  const int64_t start = sequence.out_offset + RowOffset(call, block, call.out, r);
  for (int32_t d = 0; d < call.head_dim(); ++d) {
    const float value = sum == 0.0F ? 0.0F : o[d] / sum;
    switch (call.out.dtype) {
      case DType::kF32: reinterpret_cast<float*>(call.out.data)[start + d] = value; break;
      case DType::kF16: reinterpret_cast<uint16_t*>(call.out.data)[start + d] = FloatToFp16(value); break;
      default: reinterpret_cast<uint16_t*>(call.out.data)[start + d] = FloatToBf16(value); break;
    }
  }
}

}  // namespace dunlin::kernels::cpu

// Loading of packed query rows and storing of output rows.
#include "kernels/cpu/attention/query_block.h"

namespace dunlin::kernels::cpu {
namespace {

template <typename Byte>
int64_t RowOffset(const AttentionCall& call, const QueryBlock& block, const RowTensor<Byte>& tensor, int r) {
  const int64_t row = block.first_row + r;
  const int64_t head = block.kv_head * int64_t{call.group} + row % call.group;
  return row / call.group * tensor.token_stride + head * tensor.head_stride;
}

}  // namespace

void LoadQueryBlock(const AttentionCall& call, const SequenceView& sequence, int32_t kv_head, int64_t first_row,
                    int rows, std::byte* packed_q, QueryBlock* block) {
  *block = {.kv_head = kv_head, .first_row = first_row, .rows = rows, .max_limit = 0, .limits = {}, .q = packed_q};
  const int64_t row_bytes = QueryRowBytes(call.head_dim());
  for (int r = 0; r < rows; ++r) {
    block->limits[r] = sequence.KeyLimit(static_cast<int32_t>((first_row + r) / call.group));
    const int64_t start = sequence.query_offset + RowOffset(call, *block, call.query, r);
    call.ops->load_query({.in = call.query.data + start * static_cast<int64_t>(SizeOf(call.query.dtype)),
                          .in_dtype = call.query.dtype,
                          .head_dim = call.head_dim(),
                          .sign = call.query_sign,
                          .round_to_bf16 = call.layout.dtype == DType::kBF16,
                          .packed = packed_q + r * row_bytes});
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
  call.ops->store_output({.o = o,
                          .sum = sum,
                          .head_dim = call.head_dim(),
                          .out_dtype = call.out.dtype,
                          .out = call.out.data + start * static_cast<int64_t>(SizeOf(call.out.dtype))});
}

}  // namespace dunlin::kernels::cpu

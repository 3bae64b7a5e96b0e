// SPDX-License-Identifier: Apache-2.0
#include "kernels/cuda/attention/call.h"

namespace dunlin::kernels::cuda {
namespace {

bool WholePieces(const void* data, int64_t dim, DType dtype) {
  return reinterpret_cast<uintptr_t>(data) % 16 == 0 && dim * static_cast<int64_t>(SizeOf(dtype)) % 16 == 0;
}

int32_t ShiftOf(int32_t tokens_per_page) {
  int32_t shift = 0;
  while ((1 << shift) < tokens_per_page) ++shift;
  return shift;
}

KvTensor PagedTensor(const PagedAttentionParams& params, const unsigned char* data, int32_t dim) {
  const KvLayout& layout = params.layout;
  return {.data = data,
          .dtype = layout.dtype,
          .dim = dim,
          .head_bytes = static_cast<int64_t>(layout.head_bytes),
          .row_bytes = PaddedHeadDim(dim) * static_cast<int64_t>(SizeOf(layout.dtype)),
          .sequence_bytes = 0,
          .scale_offset = KvScaleOffset(dim, layout.tokens_per_page, 0),
          .whole_pieces = WholePieces(data, dim, layout.dtype) && layout.page_bytes % 16 == 0};
}

// With KvShape::values_in_keys: the last dimensions of the keys.
KvTensor ValuesOfKeys(const KvTensor& keys, int32_t v_head_dim) {
  const auto element = static_cast<int64_t>(SizeOf(keys.dtype));
  KvTensor values = keys;
  values.data += (keys.dim - v_head_dim) * element;
  values.dim = v_head_dim;
  values.whole_pieces = keys.whole_pieces && WholePieces(values.data, v_head_dim, keys.dtype);
  return values;
}

KvTensor DenseTensor(const DenseAttentionParams& params, const void* data, int32_t dim) {
  const int64_t row_bytes = dim * static_cast<int64_t>(SizeOf(params.dtype));
  return {.data = static_cast<const unsigned char*>(data),
          .dtype = params.dtype,
          .dim = dim,
          .head_bytes = params.kv_len * row_bytes,
          .row_bytes = row_bytes,
          .sequence_bytes = int64_t{params.num_kv_heads} * params.kv_len * row_bytes,
          .scale_offset = 0,
          .whole_pieces = WholePieces(data, dim, params.dtype)};
}

template <typename Byte, typename Data>
RowTensor<Byte> DenseRows(const DenseAttentionParams& params, Data* data, int32_t dim) {
  const int64_t head_stride = int64_t{params.q_len} * dim;
  return {.data = static_cast<Byte*>(data),
          .dtype = params.dtype,
          .element_bytes = static_cast<int32_t>(SizeOf(params.dtype)),
          .sequence_stride = params.num_heads * head_stride,
          .token_stride = dim,
          .head_stride = head_stride};
}

// The input of the output projection, FP16 or BF16, in place of FP32 rows.
RowTensor<unsigned char> NextRows(const Activation& next, int32_t v_head_dim) {
  const MatrixView rows = ViewOf(next);
  const int64_t element = ElementBytes(rows.precision);
  return {.data = rows.data,
          .dtype = rows.precision == Precision::kFp16 ? DType::kF16 : DType::kBF16,
          .element_bytes = static_cast<int32_t>(element),
          .sequence_stride = 0,
          .token_stride = RowBytes(rows.precision, rows.columns) / element,
          .head_stride = v_head_dim};
}

}  // namespace

AttentionCall CallOf(const PagedAttentionParams& params) {
  const KvLayout& layout = params.layout;
  const int32_t head_dim = layout.shape.head_dim;
  const auto* keys = static_cast<const unsigned char*>(params.kv_pool) + KeyBlockOffset(layout, 0, params.layer, 0);
  AttentionCall call{};
  call.query = {.data = reinterpret_cast<const unsigned char*>(params.query),
                .dtype = DType::kF32,
                .element_bytes = 4,
                .sequence_stride = 0,
                .token_stride = params.query_stride,
                .head_stride = head_dim};
  call.out = {.data = reinterpret_cast<unsigned char*>(params.out),
              .dtype = DType::kF32,
              .element_bytes = 4,
              .sequence_stride = 0,
              .token_stride = int64_t{params.num_heads} * layout.shape.v_head_dim,
              .head_stride = layout.shape.v_head_dim};
  if (params.next != nullptr) call.out = NextRows(*params.next, layout.shape.v_head_dim);
  call.keys = PagedTensor(params, keys, head_dim);
  call.values = layout.shape.values_in_keys
                    ? ValuesOfKeys(call.keys, layout.shape.v_head_dim)
                    : PagedTensor(params, keys + layout.key_block_bytes, layout.shape.v_head_dim);
  call.num_sequences = params.num_sequences;
  call.num_heads = params.num_heads;
  call.num_kv_heads = layout.shape.num_kv_heads;
  call.group = params.num_heads / layout.shape.num_kv_heads;
  call.spans = params.sequences;
  call.page_table = params.page_table;
  call.page_table_stride = params.page_table_stride;
  call.page_bytes = static_cast<int64_t>(layout.page_bytes);
  call.page_shift = ShiftOf(layout.tokens_per_page);
  call.SetVisible(params.causal, params.window);
  call.scale = params.scale;
  call.softcap = params.softcap;
  call.alibi_slopes = params.alibi_slopes;
  call.bias = params.bias;
  call.sinks = params.sinks;
  call.selection = params.selection;
  call.max_query_tokens = params.max_query_tokens;
  call.max_kv_tokens = params.max_kv_tokens;
  return call;
}

AttentionCall CallOf(const DenseAttentionParams& params) {
  const int32_t v_head_dim = params.v_head_dim == 0 ? params.head_dim : params.v_head_dim;
  AttentionCall call{};
  call.query = DenseRows<const unsigned char>(params, params.q, params.head_dim);
  call.out = DenseRows<unsigned char>(params, params.out, v_head_dim);
  call.keys = DenseTensor(params, params.k, params.head_dim);
  call.values = DenseTensor(params, params.v, v_head_dim);
  call.num_sequences = params.batch;
  call.num_heads = params.num_heads;
  call.num_kv_heads = params.num_kv_heads;
  call.group = params.num_heads / params.num_kv_heads;
  call.dense_query_len = params.q_len;
  call.dense_kv_len = params.kv_len;
  call.first_position = params.alignment == CausalAlignment::kTopLeft ? 0 : params.kv_len - params.q_len;
  call.SetVisible(params.causal, params.window);
  call.scale = params.scale;
  call.softcap = params.softcap;
  call.alibi_slopes = params.alibi_slopes;
  call.bias = params.bias;
  call.mask = params.mask;
  call.max_query_tokens = params.q_len;
  call.max_kv_tokens = params.kv_len;
  return call;
}

}  // namespace dunlin::kernels::cuda

// SPDX-License-Identifier: Apache-2.0
#include "kernels/cuda/attention/check_problem.h"

#include <algorithm>
#include <cmath>

#include "kernels/cuda/attention/paged_attention.h"

namespace dunlin::kernels::cuda {
namespace {

struct CheckedSequence {
  int32_t first_position;
  int32_t query_len;
};
// Those of one token first; two of the key ranges cross splits of 1,024 keys.
constexpr CheckedSequence kSequences[] = {{0, 1}, {1060, 1}, {127, 1}, {1000, 75}, {0, 40}, {300, 3}};

// Of the second of two layers, in pages with a tail, as those that hold several layouts have: no stride is a multiple
// of the one before it.
constexpr int32_t kLayer = 1;
KvLayout CheckedLayout(DType dtype, int32_t head_dim, bool latent) {
  const KvShape shape{.num_layers = 2,
                      .num_kv_heads = AttentionCheck::kNumKvHeads,
                      .head_dim = head_dim,
                      .v_head_dim = latent ? head_dim - AttentionCheck::kPlainDims : 0,
                      .values_in_keys = latent};
  return MakeKvLayout(dtype, shape, MakeKvLayout(dtype, shape).page_bytes + 48);
}

// -1 to 1 in steps that every 16-bit format holds.
float Number(uint32_t* state) {
  *state = *state * 1664525U + 1013904223U;
  return static_cast<float>(static_cast<int32_t>(*state >> 24) - 128) / 128.0F;
}

DType CheckedDType(const AttentionKernel& kernel) {
  for (const DType dtype : {DType::kBF16, DType::kF16}) {
    if ((kernel.dtypes & Bit(dtype)) != 0) return dtype;
  }
  return DType::kF8E4M3;
}

// A key or value in its block. Codes have a scale of their token, from 2^-9 to 2^-8, and magnitudes of at most 1, too.
void StoreRow(const KvLayout& layout, int32_t slot, uint32_t* state, unsigned char* block) {
  const int32_t dim = layout.shape.head_dim;
  const int64_t first = KvElement(dim, slot, 0);
  for (int32_t d = 0; d < dim; ++d) {
    const float value = Number(state);
    if (layout.dtype == DType::kF8E4M3) {
      block[first + d] = ToE4M3(value * 256.0F);
    } else {
      reinterpret_cast<uint16_t*>(block)[first + d] = layout.dtype == DType::kBF16 ? ToBf16(value) : ToFp16(value);
    }
  }
  if (layout.dtype != DType::kF8E4M3) return;
  const float scale = (3.0F + Number(state)) * 0x1p-10F;
  *reinterpret_cast<float*>(block + KvScaleOffset(dim, layout.tokens_per_page, slot)) = scale;
}

}  // namespace

AttentionCheck::AttentionCheck(const AttentionKernel& kernel)
    : dtype(CheckedDType(kernel)),
      latent(kernel.limits.max_head_dim == 0),
      head_dim(latent ? kernel.limits.max_latent_dim : kernel.limits.max_head_dim) {
  const KvLayout layout = CheckedLayout(dtype, head_dim, latent);
  const auto pages_of = [&layout](const CheckedSequence& sequence) {
    return (sequence.first_position + sequence.query_len + layout.tokens_per_page - 1) / layout.tokens_per_page;
  };
  int32_t stride = 0;
  int32_t num_pages = 0;
  int32_t tokens = 0;
  for (const CheckedSequence& sequence : kSequences) {
    stride = std::max(stride, pages_of(sequence));
    num_pages += pages_of(sequence);
    tokens += sequence.query_len;
    num_one_token_ += sequence.query_len == 1 ? 1 : 0;
  }
  pool.assign(static_cast<size_t>(num_pages) * layout.page_bytes, 0xFF);  // NaN in every format
  page_table.assign(std::size(kSequences) * static_cast<size_t>(stride), 0);
  uint32_t state = 1;
  int32_t query_start = 0;
  int32_t next_page = 0;
  for (size_t i = 0; i < std::size(kSequences); ++i) {
    const CheckedSequence& sequence = kSequences[i];
    spans.push_back({query_start, sequence.query_len, sequence.first_position, static_cast<int32_t>(i)});
    query_start += sequence.query_len;
    for (int32_t page = 0; page < pages_of(sequence); ++page) {
      // The pages of all sequences in an order of their own: 7 and the number of pages have no divisor in common.
      const auto id = static_cast<int32_t>(int64_t{next_page++} * 7 % num_pages);
      page_table[i * static_cast<size_t>(stride) + static_cast<size_t>(page)] = id;
      for (int32_t slot = 0; slot < layout.tokens_per_page; ++slot) {
        if (page * layout.tokens_per_page + slot >= sequence.first_position + sequence.query_len) break;
        for (int32_t head = 0; head < kNumKvHeads; ++head) {
          StoreRow(layout, slot, &state, pool.data() + KeyBlockOffset(layout, id, kLayer, head));
          if (latent) continue;
          StoreRow(layout, slot, &state, pool.data() + ValueBlockOffset(layout, id, kLayer, head));
        }
      }
    }
  }
  query.resize(static_cast<size_t>(tokens) * kNumHeads * static_cast<size_t>(head_dim));
  for (float& value : query) value = Number(&state);
  for (int32_t head = 0; head < kNumHeads; ++head) slopes.push_back(1.0F / static_cast<float>(2 << head));
}

AttentionTraits AttentionCheck::traits() const {
  return {.dtype = dtype,
          .head_dim = head_dim,
          .num_heads = kNumHeads,
          .num_kv_heads = kNumKvHeads,
          .v_head_dim = latent ? value_dim() : 0,
          .values_in_keys = latent};
}

size_t AttentionCheck::out_floats(bool decode) const {
  const size_t rows =
      decode ? static_cast<size_t>(num_one_token_) * kNumHeads : query.size() / static_cast<size_t>(head_dim);
  return rows * static_cast<size_t>(value_dim());
}

AttentionCall AttentionCheck::Call(const Places& places, bool decode, CheckedScores scores) const {
  PagedAttentionParams params{};
  params.backend = AttentionBackend::kFlash;
  params.query = places.query;
  params.query_stride = int64_t{kNumHeads} * head_dim;
  params.out = places.out;
  params.kv_pool = places.pool;
  params.layout = CheckedLayout(dtype, head_dim, latent);
  params.num_pages = static_cast<int32_t>(pool.size() / params.layout.page_bytes);
  params.layer = kLayer;
  params.num_heads = kNumHeads;
  params.page_table = places.page_table;
  params.page_table_stride = static_cast<int64_t>(page_table.size() / spans.size());
  params.sequences = places.spans;
  params.num_sequences = decode ? num_one_token_ : static_cast<int32_t>(spans.size());
  for (int32_t i = 0; i < params.num_sequences; ++i) {
    const SequenceSpan& span = spans[static_cast<size_t>(i)];
    params.num_rows = std::max(params.num_rows, span.query_start + span.query_len);
    params.max_query_tokens = std::max(params.max_query_tokens, span.query_len);
    params.max_kv_tokens = std::max(params.max_kv_tokens, span.first_position + span.query_len);
  }
  params.scale = 1.0F / std::sqrt(static_cast<float>(head_dim));
  if (scores == CheckedScores::kCapped) {  // scores of a few units, of which the cap leaves one
    params.scale *= 8.0F;
    params.softcap = 1.0F;
  }
  if (scores == CheckedScores::kSloped) params.alibi_slopes = places.slopes;
  return CallOf(params);
}

std::vector<CheckedScores> AttentionCheck::ScoresOf(const AttentionKernel& kernel) const {
  std::vector<CheckedScores> taken;
  for (const CheckedScores scores : {CheckedScores::kPlain, CheckedScores::kCapped, CheckedScores::kSloped}) {
    const AttentionCall call =
        Call({pool.data(), page_table.data(), spans.data(), query.data(), slopes.data(), nullptr}, false, scores);
    if (kernel.takes == nullptr || kernel.takes(call)) taken.push_back(scores);
  }
  return taken;
}

void LaunchRow(const AttentionKernel& kernel, const AttentionCall& call, const DeviceShape& device, void* workspace,
               size_t workspace_bytes, Stream stream) {
  (void)RunAttentionCall(device, kernel, call, workspace, workspace_bytes, stream);
}

// Weights are rounded by half a step of BF16, 2^-9 of each, once in either kernel, and values are at most 1.
bool OutputsAgree(std::span<const float> expected, std::span<const float> out) {
  return std::ranges::equal(expected, out, [](float a, float b) { return std::fabs(a - b) <= 0x1p-7F; });
}

uint64_t CheckedAttention(const DeviceShape& device) {
  uint64_t bits = 0;
  for (const AttentionKernel& kernel : AttentionKernels()) {
    if (RunsOn(kernel, device)) bits |= kernel.check_bit;
  }
  return bits;
}

}  // namespace dunlin::kernels::cuda

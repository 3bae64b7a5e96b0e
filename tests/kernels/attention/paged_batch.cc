// SPDX-License-Identifier: Apache-2.0
// Layout and running of paged batches.
#include "tests/kernels/attention/paged_batch.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <random>
#include <tuple>

namespace dunlin::kernels::testing {
namespace {

constexpr int32_t kLayers = 2;
constexpr int32_t kLayer = 1;
constexpr int32_t kSparePages = 3;
constexpr int32_t kTableTail = 2;

KvLayout LayoutOf(DType dtype, const HeadShape& shape) {
  return MakeKvLayout(dtype, {.num_layers = kLayers,
                              .num_kv_heads = shape.num_kv_heads,
                              .head_dim = shape.head_dim,
                              .v_head_dim = shape.v_head_dim,
                              .values_in_keys = shape.v_head_dim != 0});
}

int32_t PagesOf(const BatchSequence& sequence, const KvLayout& layout) {
  return (sequence.first_position + sequence.query_len + layout.tokens_per_page - 1) / layout.tokens_per_page;
}

size_t PoolBytes(const std::vector<BatchSequence>& sequences, const KvLayout& layout) {
  int32_t pages = kSparePages;
  for (const BatchSequence& sequence : sequences) pages += PagesOf(sequence, layout);
  return static_cast<size_t>(pages) * layout.page_bytes;
}

// A sequence's rows, rounded, which most tests lay out many times: kept while the dtype and the dimension stay. Tests
// build their batches on one thread.
class SyntheticRows {
 public:
  const float* Row(DType dtype, int32_t dim, uint64_t seed, Kind kind, int32_t head, int32_t position) {
    if (dtype != dtype_ || dim != dim_) rows_.clear();
    dtype_ = dtype;
    dim_ = dim;
    std::vector<float>& rows = rows_[{seed, kind, head}];
    const auto width = static_cast<size_t>(dim);
    for (auto next = static_cast<int32_t>(rows.size() / width); next <= position; ++next) {
      for (int32_t d = 0; d < dim; ++d) {
        const float value = Synthetic(seed, kind, next, head, d) * (kind == Kind::kValue ? 1.0F : 2.0F);
        rows.push_back(RoundTo(dtype, value));
      }
    }
    return rows.data() + static_cast<size_t>(position) * width;
  }

 private:
  DType dtype_ = DType::kF32;
  int32_t dim_ = 0;
  std::map<std::tuple<uint64_t, Kind, int32_t>, std::vector<float>> rows_;  // [positions, dim] by seed, kind and head
};

}  // namespace

PagedBatch::PagedBatch(DType dtype, const HeadShape& shape, std::vector<BatchSequence> sequences, uint64_t layout_seed,
                       const PageFormat& format)
    : dtype_(dtype),
      shape_(shape),
      format_(format),
      layout_(LayoutOf(dtype, shape)),
      sequences_(std::move(sequences)),
      pool_(PoolBytes(sequences_, layout_)) {
  PlacePages(layout_seed);
  for (size_t i = 0; i < sequences_.size(); ++i) StoreTokens(i);
}

void PagedBatch::PlacePages(uint64_t layout_seed) {
  std::vector<int32_t> free_pages(pool_.size() / layout_.page_bytes);
  std::iota(free_pages.begin(), free_pages.end(), 0);
  std::shuffle(free_pages.begin(), free_pages.end(), std::mt19937_64(layout_seed));
  for (const BatchSequence& sequence : sequences_) {
    page_table_stride_ = std::max<int64_t>(page_table_stride_, PagesOf(sequence, layout_) + kTableTail);
  }
  const size_t rows = sequences_.size();
  page_table_.assign(rows * static_cast<size_t>(page_table_stride_), kGarbagePage);
  int32_t query_start = 0;
  for (size_t i = 0; i < rows; ++i) {
    const size_t table_row = rows - 1 - i;  // rows of the table in another order than the sequences
    spans_.push_back({.query_start = query_start,
                      .query_len = sequences_[i].query_len,
                      .first_position = sequences_[i].first_position,
                      .page_table_row = static_cast<int32_t>(table_row)});
    query_start += sequences_[i].query_len;
    for (int32_t page = 0; page < PagesOf(sequences_[i], layout_); ++page) {
      page_table_[table_row * static_cast<size_t>(page_table_stride_) + static_cast<size_t>(page)] = free_pages.back();
      free_pages.pop_back();
    }
  }
}

void PagedBatch::StoreTokens(size_t index) {
  const BatchSequence& sequence = sequences_[index];
  const int32_t* pages = page_table_.data() + spans_[index].page_table_row * page_table_stride_;
  const int32_t kv_len = sequence.first_position + sequence.query_len;
  static auto* const rows = new SyntheticRows();
  const std::vector<float> poison(static_cast<size_t>(shape_.head_dim), NAN);
  const auto row = [&](Kind kind, int32_t position, int32_t head) {
    if (position >= sequence.poison_from || position < sequence.poison_before) return poison.data();
    return rows->Row(dtype_, shape_.head_dim, sequence.seed, kind, head, position);
  };
  for (int32_t position = 0; position < kv_len; ++position) {
    for (int32_t head = 0; head < shape_.num_kv_heads; ++head) {
      const int32_t page = pages[position / layout_.tokens_per_page];
      format_.store(layout_, pool_.data(), page, kLayer, head, position % layout_.tokens_per_page,
                    row(Kind::kKey, position, head),
                    shape_.v_head_dim == 0 ? row(Kind::kValue, position, head) : nullptr);
    }
  }
  for (int32_t t = 0; t < sequence.query_len; ++t) {
    for (int32_t head = 0; head < shape_.num_heads; ++head) {
      const float* query = row(Kind::kQuery, sequence.first_position + t, head);
      query_.insert(query_.end(), query, query + shape_.head_dim);
    }
  }
}

int32_t PagedBatch::KeyStart(size_t sequence, int32_t token) const {
  const int32_t position = sequences_[sequence].first_position + token;
  if (window == 0) return 0;
  return std::max(0, causal ? position - window + 1 : position - window / 2);
}

int32_t PagedBatch::KeyLimit(size_t sequence, int32_t token) const {
  const int32_t position = sequences_[sequence].first_position + token;
  const int32_t kv_len = sequences_[sequence].first_position + sequences_[sequence].query_len;
  if (causal) return position + 1;
  return window == 0 ? kv_len : std::min(kv_len, position + window / 2 + 1);
}

void PagedBatch::FillUnusedSlots(float value) {
  for (size_t i = 0; i < sequences_.size(); ++i) {
    const int32_t kv_len = sequences_[i].first_position + sequences_[i].query_len;
    const int32_t* pages = page_table_.data() + spans_[i].page_table_row * page_table_stride_;
    for (int32_t slot = kv_len; slot % layout_.tokens_per_page != 0; ++slot) {
      for (int32_t head = 0; head < shape_.num_kv_heads; ++head) {
        format_.fill(layout_, pool_.data(), pages[slot / layout_.tokens_per_page], kLayer, head,
                     slot % layout_.tokens_per_page, value);
      }
    }
  }
}

PagedAttentionPlan PagedBatch::Plan() const {
  PagedAttentionPlan plan{.traits = {.dtype = dtype_,
                                     .head_dim = shape_.head_dim,
                                     .num_heads = shape_.num_heads,
                                     .num_kv_heads = shape_.num_kv_heads,
                                     .window = window,
                                     .softcap = softcap,
                                     .causal = causal,
                                     .sinks = !sinks.empty(),
                                     .v_head_dim = shape_.v_head_dim,
                                     .values_in_keys = shape_.v_head_dim != 0},
                          .max_query_tokens = 0,
                          .max_kv_tokens = 0};
  for (const SequenceSpan& span : spans_) {
    plan.max_query_tokens = std::max(plan.max_query_tokens, span.query_len + slack);
    plan.max_kv_tokens = std::max(plan.max_kv_tokens, span.first_position + span.query_len + slack);
  }
  return plan;
}

PagedAttentionParams PagedBatch::Params(AttentionBackend backend, float* out) const {
  const PagedAttentionPlan plan = Plan();
  const auto first_long =
      std::find_if(spans_.begin(), spans_.end(), [](const SequenceSpan& span) { return span.query_len != 1; });
  return {.backend = backend,
          .query = query_.data(),
          .query_stride = int64_t{shape_.num_heads} * shape_.head_dim,
          .out = out,
          .kv_pool = pool_.data(),
          .num_pages = static_cast<int32_t>(pool_.size() / layout_.page_bytes),
          .layout = layout_,
          .layer = kLayer,
          .num_heads = shape_.num_heads,
          .page_table = page_table_.data(),
          .page_table_stride = page_table_stride_,
          .sequences = spans_.data(),
          .num_sequences = static_cast<int32_t>(spans_.size()),
          .num_one_token_sequences = static_cast<int32_t>(first_long - spans_.begin()),
          .num_rows = static_cast<int32_t>(query_.size() / static_cast<size_t>(shape_.num_heads * shape_.head_dim)),
          .max_query_tokens = plan.max_query_tokens,
          .max_kv_tokens = plan.max_kv_tokens,
          .scale = scale,
          .window = window,
          .softcap = softcap,
          .causal = causal,
          .alibi_slopes = alibi_slopes.empty() ? nullptr : alibi_slopes.data(),
          .bias = {.data = KeyBias(0), .head_stride = static_cast<int64_t>(key_bias.size()) / shape_.num_heads},
          .sinks = sinks.empty() ? nullptr : sinks.data(),
          .workspace = nullptr,
          .workspace_bytes = 0};
}

void PagedBatch::SetKeyBias() {
  const int32_t keys = Plan().max_kv_tokens;
  for (int32_t head = 0; head < shape_.num_heads; ++head) {
    for (int32_t key = 0; key < keys; ++key) {
      key_bias.push_back(std::floor(static_cast<float>(key) / static_cast<float>(3 << head)) * 0.125F);
    }
  }
}

const float* PagedBatch::KeyBias(int32_t head) const {
  return key_bias.empty() ? nullptr
                          : key_bias.data() + head * (key_bias.size() / static_cast<size_t>(shape_.num_heads));
}

std::vector<float> PagedBatch::Run(AttentionBackend backend, const std::string& variant, int num_threads) {
  Device& device = CpuDevice(variant, num_threads);
  PoisonedMemory workspace(device.ops->paged_attention_workspace(device.context, backend, Plan()));
  std::vector<float> out(out_floats(), NAN);
  PagedAttentionParams params = Params(backend, out.data());
  params.workspace = workspace.data();
  params.workspace_bytes = workspace.size();
  const KernelStatus status = device.ops->paged_attention(device.context, params);
  EXPECT_EQ(status, KernelStatus::kOk) << Name(status) << " " << Describe(backend, dtype_, variant);
  EXPECT_TRUE(workspace.Intact()) << "wrote past the workspace: " << Describe(backend, dtype_, variant);
  return out;
}

const float* PagedBatch::Row(const std::vector<float>& out, size_t sequence, int32_t token, int32_t head) const {
  return out.data() + (int64_t{spans_[sequence].query_start + token} * shape_.num_heads + head) * shape_.out_dim();
}

const float* PagedBatch::Query(size_t sequence, int32_t token, int32_t head) const {
  return query_.data() + (int64_t{spans_[sequence].query_start + token} * shape_.num_heads + head) * shape_.head_dim;
}

std::vector<float> PagedBatch::Tokens(size_t sequence, Kind kind, int32_t kv_head) const {
  std::vector<float> rows;
  const BatchSequence& s = sequences_[sequence];
  const bool in_keys = kind == Kind::kValue && shape_.v_head_dim != 0;
  if (in_keys) kind = Kind::kKey;
  for (int32_t position = 0; position < s.first_position + s.query_len; ++position) {
    std::vector<float> row;
    for (int32_t d = 0; d < shape_.head_dim; ++d) {
      row.push_back(Synthetic(s.seed, kind, position, kv_head, d) * (kind == Kind::kValue ? 1.0F : 2.0F));
    }
    row = RoundRow(dtype_, std::move(row));
    rows.insert(rows.end(), in_keys ? row.end() - shape_.v_head_dim : row.begin(), row.end());
  }
  return rows;
}

}  // namespace dunlin::kernels::testing

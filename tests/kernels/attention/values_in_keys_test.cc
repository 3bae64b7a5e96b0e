// SPDX-License-Identifier: Apache-2.0
// Pages without value blocks (KvShape::values_in_keys), whose values are the last dimensions of the keys: every backend
// gives the bits that it gives over pages that hold the same rows as keys and as values.
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <random>

#include "tests/kernels/attention/devices.h"
#include "tests/kernels/attention/synthetic.h"

namespace dunlin::kernels::testing {
namespace {

struct Dims {
  int32_t num_heads;
  int32_t num_kv_heads;
  int32_t head_dim;
  int32_t v_head_dim;
};
constexpr Dims kDims[] = {{4, 1, 26, 20}, {6, 2, 9, 7}, {3, 1, 96, 64}, {16, 1, 576, 512}, {2, 2, 8, 8}};

// Keys before the call's rows, and rows; odd and even ends, decode, and tiles that are only begun.
constexpr SequenceSpan kSpans[] = {{0, 1, 256, 0}, {1, 1, 299, 1}, {2, 40, 0, 2}, {42, 21, 130, 3}};
constexpr int32_t kRows = 63;
constexpr int32_t kMaxKeys = 300;

// Every sequence in pages of one layout, by rotate_and_store_kv. With value heads the values are the keys.
class StoredSequences {
 public:
  StoredSequences(Device& device, DType dtype, const Dims& dims, bool values_in_keys)
      : device_(device),
        dims_(dims),
        layout_(MakeKvLayout(dtype, {.num_layers = 2,
                                     .num_kv_heads = dims.num_kv_heads,
                                     .head_dim = dims.head_dim,
                                     .v_head_dim = values_in_keys ? dims.v_head_dim : dims.head_dim,
                                     .values_in_keys = values_in_keys})),
        pages_per_sequence_((kMaxKeys + layout_.tokens_per_page - 1) / layout_.tokens_per_page),
        page_table_(std::size(kSpans) * static_cast<size_t>(pages_per_sequence_)),
        pool_(page_table_.size() * layout_.page_bytes) {
    std::iota(page_table_.begin(), page_table_.end(), 0);
    std::shuffle(page_table_.begin(), page_table_.end(), std::mt19937(7));
    for (const SequenceSpan& span : kSpans) Store(span);
  }

  const KvLayout& layout() const { return layout_; }

  // [kRows, num_heads, v_head_dim of the layout]
  std::vector<float> Attend(AttentionBackend backend) {
    std::vector<float> query(static_cast<size_t>(kRows * dims_.num_heads * dims_.head_dim));
    for (size_t i = 0; i < query.size(); ++i) {
      query[i] = Synthetic(99, Kind::kQuery, static_cast<int64_t>(i) / dims_.head_dim, 0,
                           static_cast<int32_t>(static_cast<int64_t>(i) % dims_.head_dim));
    }
    std::vector<float> out(static_cast<size_t>(kRows * dims_.num_heads * layout_.shape.v_head_dim), -1.0F);
    PagedAttentionParams params{};
    params.backend = backend;
    params.query = query.data();
    params.query_stride = int64_t{dims_.num_heads} * dims_.head_dim;
    params.out = out.data();
    params.kv_pool = pool_.data();
    params.num_pages = static_cast<int32_t>(pool_.size() / layout_.page_bytes);
    params.layout = layout_;
    params.layer = 1;
    params.num_heads = dims_.num_heads;
    params.page_table = page_table_.data();
    params.page_table_stride = pages_per_sequence_;
    params.sequences = kSpans;
    params.num_sequences = static_cast<int32_t>(std::size(kSpans));
    params.num_one_token_sequences = 2;
    params.num_rows = kRows;
    params.max_query_tokens = 40;
    params.max_kv_tokens = kMaxKeys;
    params.scale = 0.3F;
    const PagedAttentionPlan plan{.traits = {.dtype = layout_.dtype,
                                             .head_dim = dims_.head_dim,
                                             .num_heads = dims_.num_heads,
                                             .num_kv_heads = dims_.num_kv_heads,
                                             .v_head_dim = layout_.shape.v_head_dim,
                                             .values_in_keys = layout_.shape.values_in_keys},
                                  .max_query_tokens = params.max_query_tokens,
                                  .max_kv_tokens = params.max_kv_tokens};
    PoisonedMemory workspace(device_.ops->paged_attention_workspace(device_.context, backend, plan));
    params.workspace = workspace.data();
    params.workspace_bytes = workspace.size();
    EXPECT_EQ(device_.ops->paged_attention(device_.context, params), KernelStatus::kOk);
    EXPECT_TRUE(workspace.Intact());
    return out;
  }

  bool Intact() const { return pool_.Intact(); }

 private:
  void Store(const SequenceSpan& span) {
    const int32_t tokens = span.first_position + span.query_len;
    const bool values = !layout_.shape.values_in_keys;
    const int32_t heads = dims_.num_heads + (values ? 2 : 1) * dims_.num_kv_heads;
    std::vector<float> rows;
    std::vector<int32_t> pages;
    std::vector<int32_t> slots;
    for (int32_t t = 0; t < tokens; ++t) {
      for (int32_t head = 0; head < heads; ++head) {
        // A head of Q is not stored; a value head repeats its key head.
        const int32_t of_kv = (head - dims_.num_heads) % dims_.num_kv_heads;
        for (int32_t d = 0; d < dims_.head_dim; ++d) {
          rows.push_back(head < dims_.num_heads
                             ? 0.0F
                             : Synthetic(static_cast<uint64_t>(span.page_table_row), Kind::kKey, t, of_kv, d));
        }
      }
      pages.push_back(
          page_table_[static_cast<size_t>(span.page_table_row * pages_per_sequence_ + t / layout_.tokens_per_page)]);
      slots.push_back(t % layout_.tokens_per_page);
    }
    const RotateAndStoreKvParams params{.qkv = rows.data(),
                                        .cos_sin = nullptr,
                                        .rotary_dim = 0,
                                        .num_heads = dims_.num_heads,
                                        .kv_pool = pool_.data(),
                                        .layout = layout_,
                                        .layer = 1,
                                        .token_page = pages.data(),
                                        .token_slot = slots.data(),
                                        .num_tokens = tokens};
    ASSERT_EQ(device_.ops->rotate_and_store_kv(device_.context, params), KernelStatus::kOk);
  }

  Device& device_;
  const Dims dims_;
  const KvLayout layout_;
  const int32_t pages_per_sequence_;
  std::vector<int32_t> page_table_;
  PoisonedMemory pool_;
};

TEST(ValuesInKeys, GiveTheBitsOfPagesWithValueBlocks) {
  for (const std::string& variant : AvailableCpuVariants()) {
    Device& device = CpuDevice(variant, 2);
    for (const DType dtype : kDTypes) {
      for (const Dims& dims : kDims) {
        StoredSequences keys(device, dtype, dims, true);
        StoredSequences both(device, dtype, dims, false);
        EXPECT_LT(keys.layout().page_bytes, both.layout().page_bytes);
        for (const AttentionBackend backend : kBackends) {
          if (backend == AttentionBackend::kFlash && dims.head_dim > 512) continue;
          const std::vector<float> out = keys.Attend(backend);
          const std::vector<float> expected = both.Attend(backend);
          int64_t differing = 0;
          for (int32_t row = 0; row < kRows * dims.num_heads; ++row) {
            const float* last = expected.data() + int64_t{row + 1} * dims.head_dim - dims.v_head_dim;
            differing += std::equal(last, last + dims.v_head_dim, out.data() + int64_t{row} * dims.v_head_dim) ? 0 : 1;
          }
          EXPECT_EQ(differing, 0) << Describe(backend, dtype, variant) << " head_dim " << dims.head_dim;
        }
        EXPECT_TRUE(keys.Intact() && both.Intact());
      }
    }
  }
}

TEST(ValuesInKeys, PagesHaveKeysAlone) {
  const KvShape shape{.num_layers = 61, .num_kv_heads = 1, .head_dim = 576, .v_head_dim = 512, .values_in_keys = true};
  const KvLayout layout = MakeKvLayout(DType::kBF16, shape);
  EXPECT_EQ(layout.value_block_bytes, 0U);
  EXPECT_EQ(layout.page_bytes, 61U * 16 * 576 * 2);
}

TEST(ValuesInKeys, DimensionsAndDTypesThatDoNotFitAreRefusedByName) {
  struct Case {
    DType dtype;
    int32_t v_head_dim;
    const char* reason;
  };
  for (const Case& c : {Case{DType::kBF16, 27, "v_head_dim is 27, head_dim is 26"},
                        Case{DType::kBF16, 21, "an even number less; v_head_dim is 21"},
                        Case{DType::kBF16, 0, "v_head_dim is 0, head_dim is 26"},
                        Case{DType::kF8E4M3, 20, "does not support values that are in keys in fp8_e4m3 pages"}}) {
    const AttentionTraits traits{.dtype = c.dtype,
                                 .head_dim = 26,
                                 .num_heads = 4,
                                 .num_kv_heads = 1,
                                 .v_head_dim = c.v_head_dim,
                                 .values_in_keys = true};
    Device& device = CpuDevice("portable", 1);
    for (const AttentionBackend backend : kBackends) {
      std::vector<std::string> reasons;
      EXPECT_FALSE(device.ops->supports_attention(device.context, backend, traits, &reasons));
      ASSERT_FALSE(reasons.empty());
      EXPECT_NE(reasons.front().find(c.reason), std::string::npos) << reasons.front();
    }
  }
}

}  // namespace
}  // namespace dunlin::kernels::testing

// SPDX-License-Identifier: Apache-2.0
// Sparse attention of the CUDA device on the host, of rows whose chosen keys are gathered: against FP64, for equal bits
// alone and among other rows, and that no other key is read.
#include "kernels/cuda/attention/gathered_keys.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>
#include <random>
#include <vector>

#include "kernels/cuda/attention/kernel.h"
#include "kernels/cuda/attention/support.h"
#include "tests/kernels/attention/paged_batch.h"
#include "tests/kernels/attention/reference.h"
#include "tests/kernels/cuda/attention/host_attention.h"

namespace dunlin::kernels::testing {
namespace {

constexpr cuda::DeviceShape kGatheringDevice{132, 227 * 1024, 90};

// Of each query row of a batch, by the row's sequence and position alone.
struct Choice {
  Choice(const PagedBatch& batch, const std::vector<BatchSequence>& sequences, int32_t keys) : most(keys) {
    const std::vector<SequenceSpan>& spans = batch.spans();
    for (size_t i = 0; i < spans.size(); ++i) {
      stride = std::max(stride, (spans[i].first_position + spans[i].query_len + 31) / 32);
      rows = std::max(rows, spans[i].query_start + spans[i].query_len);
    }
    bits.assign(static_cast<size_t>(rows * stride), 0);
    for (size_t i = 0; i < spans.size(); ++i) {
      for (int32_t token = 0; token < spans[i].query_len; ++token) {
        const int32_t position = spans[i].first_position + token;
        std::vector<int32_t> chosen(static_cast<size_t>(position) + 1);
        std::iota(chosen.begin(), chosen.end(), 0);
        std::shuffle(chosen.begin(), chosen.end(), std::mt19937_64(sequences[i].seed * 4096 + uint64_t(position)));
        if (position >= most) chosen.resize(static_cast<size_t>(most));
        for (const int32_t key : chosen) Word(spans[i].query_start + token, key) |= 1U << (key % 32);
      }
    }
  }
  uint32_t& Word(int32_t row, int32_t key) { return bits[static_cast<size_t>(row * stride + key / 32)]; }
  bool Has(int32_t row, int32_t key) const {
    return (bits[static_cast<size_t>(row * stride + key / 32)] >> (key % 32) & 1U) != 0;
  }
  KeySelection Selection() const { return {.bits = bits.data(), .stride = stride, .most = most}; }

  int32_t most;
  int32_t stride = 0;  // words
  int32_t rows = 0;
  std::vector<uint32_t> bits;
};

// What a call has in place of its batch's own.
struct Changes {
  const void* pool = nullptr;
  const int32_t* page_table = nullptr;
  int32_t num_pages = 0;
};
constexpr Changes kUnnamedPool = {.num_pages = INT32_MAX};  // more than lists can name

std::vector<float> Attend(const PagedBatch& batch, AttentionBackend backend, const KeySelection& selection,
                          const Changes& changes = {}) {
  std::vector<float> out(batch.out_floats(), NAN);
  PagedAttentionParams params = batch.Params(backend, out.data());
  params.selection = selection;
  if (changes.pool != nullptr) params.kv_pool = changes.pool;
  if (changes.page_table != nullptr) params.page_table = changes.page_table;
  if (changes.num_pages != 0) params.num_pages = changes.num_pages;
  PagedAttentionPlan plan = batch.Plan();
  plan.selected_keys = selection.bits == nullptr ? 0 : selection.most;
  const bool gathers = selection.bits != nullptr && changes.num_pages == 0;
  EXPECT_EQ(cuda::GathersKeys(params), gathers);
  ListedSlots().clear();
  RunPagedOnHost(params, plan, kGatheringDevice);
  EXPECT_EQ(ListedSlots().empty(), !gathers);
  return out;
}

// visit(backend, dtype) for what the device supports of a shape; latent rows, which take long, in BF16 alone.
template <typename Visit>
void ForKernels(const HeadShape& shape, const Visit& visit) {
  for (const AttentionBackend backend : kBackends) {
    for (const DType dtype : {DType::kF32, DType::kBF16}) {
      if (shape.v_head_dim != 0 && dtype == DType::kF32) continue;
      const AttentionTraits traits{.dtype = dtype,
                                   .head_dim = shape.head_dim,
                                   .num_heads = shape.num_heads,
                                   .num_kv_heads = shape.num_kv_heads,
                                   .v_head_dim = shape.v_head_dim,
                                   .values_in_keys = shape.v_head_dim != 0};
      if (!cuda::SupportsAttentionOn(kGatheringDevice, backend, traits, nullptr)) continue;
      SCOPED_TRACE(std::string(Name(backend)) + " " + Name(dtype));
      visit(backend, dtype);
    }
  }
}

// Keys in heads of their own, and latent rows.
constexpr HeadShape kGrouped = {6, 2, 64};
constexpr HeadShape kLatent = {3, 1, 576, 512};

void ExpectMatchesFp64(const PagedBatch& batch, const Choice& choice, const HeadShape& shape, DType dtype,
                       const std::vector<float>& out) {
  ErrorBound bound;
  for (size_t sequence = 0; sequence < batch.spans().size(); ++sequence) {
    for (int32_t head = 0; head < shape.num_heads; ++head) {
      const int32_t kv_head = head / (shape.num_heads / shape.num_kv_heads);
      const std::vector<float> keys = batch.Tokens(sequence, Kind::kKey, kv_head);
      const std::vector<float> values = batch.Tokens(sequence, Kind::kValue, kv_head);
      for (int32_t token = 0; token < batch.spans()[sequence].query_len; ++token) {
        std::vector<uint8_t> mask;
        for (int32_t key = 0; key < batch.KeyLimit(sequence, token); ++key) {
          mask.push_back(choice.Has(batch.spans()[sequence].query_start + token, key) ? 1 : 0);
        }
        std::vector<float> query(batch.Query(sequence, token, head),
                                 batch.Query(sequence, token, head) + shape.head_dim);
        for (float& value : query) value = RoundTo(dtype, value);
        const ReferenceRow row{.q = query.data(),
                               .keys = keys.data(),
                               .values = values.data(),
                               .limit = batch.KeyLimit(sequence, token),
                               .head_dim = shape.head_dim,
                               .scale = batch.scale,
                               .v_head_dim = shape.v_head_dim,
                               .mask = mask.data()};
        bound.Add(ExactRow(row), UnfusedRow(row, dtype), batch.Row(out, sequence, token, head));
      }
    }
  }
  EXPECT_TRUE(bound.holds()) << bound.actual() << ", limit " << bound.limit();
}

void ExpectChoicesMatchFp64(const HeadShape& shape, const std::vector<BatchSequence>& sequences,
                            const std::vector<int32_t>& choices, const Changes& changes = {}) {
  ForKernels(shape, [&](AttentionBackend backend, DType dtype) {
    PagedBatch batch(dtype, shape, sequences, 1, kCudaPages);
    batch.scale = 0.05F;
    for (const int32_t most : choices) {
      const Choice choice(batch, sequences, most);
      ExpectMatchesFp64(batch, choice, shape, dtype, Attend(batch, backend, choice.Selection(), changes));
    }
  });
}

// Of the second sequence more than a split, and of some rows less than a tile.
TEST(CudaGatheredKeys, MatchFp64OfTheChosenKeys) {
  ExpectChoicesMatchFp64(kGrouped, {{1, 256, 1}, {2, 700, 1}, {3, 0, 9}, {4, 130, 3}}, {530, 3});
  ExpectChoicesMatchFp64(kLatent, {{1, 256, 1}, {3, 0, 2}}, {130});
}

// Without lists all scores are computed, by the launches of calls without a choice.
TEST(CudaGatheredKeys, OfPoolsThatListsCannotNameTheOthersAreLeftOut) {
  ExpectChoicesMatchFp64(kGrouped, {{1, 256, 1}, {2, 700, 1}, {3, 0, 9}, {4, 130, 3}}, {530}, kUnnamedPool);
  ExpectChoicesMatchFp64(kLatent, {{1, 256, 1}, {3, 0, 2}}, {130}, kUnnamedPool);
}

void ExpectSameBitsAlone(const Changes& changes) {
  const std::vector<BatchSequence> chunk = {{9, 20, 1}, {1, 560, 18}, {2, 30, 7}};
  ForKernels(kGrouped, [&](AttentionBackend backend, DType dtype) {
    const PagedBatch batch(dtype, kGrouped, chunk, 1, kCudaPages);
    const std::vector<float> out = Attend(batch, backend, Choice(batch, chunk, 520).Selection(), changes);
    for (const int32_t token : {0, 17}) {
      const std::vector<BatchSequence> one = {{1, 560 + token, 1}};
      const PagedBatch alone(dtype, kGrouped, one, 5, kCudaPages);
      const std::vector<float> row = Attend(alone, backend, Choice(alone, one, 520).Selection(), changes);
      const float* expected = batch.Row(out, 1, token, 0);
      ASSERT_TRUE(std::equal(row.begin(), row.end(), expected)) << token;
    }
  });
}

TEST(CudaGatheredKeys, ARowHasTheSameBitsAloneAndAmongOthers) {
  ExpectSameBitsAlone({});
  ExpectSameBitsAlone(kUnnamedPool);
}

TEST(CudaGatheredKeys, OfAllKeysTheBitsAreThoseWithoutAChoice) {
  const std::vector<BatchSequence> sequences = {{1, 600, 1}, {2, 0, 20}, {3, 515, 3}};
  ForKernels(kGrouped, [&](AttentionBackend backend, DType dtype) {
    const PagedBatch batch(dtype, kGrouped, sequences, 1, kCudaPages);
    EXPECT_EQ(Attend(batch, backend, Choice(batch, sequences, 1000).Selection()),
              Attend(batch, backend, {.most = 1000}));
  });
  const std::vector<BatchSequence> latent = {{1, 520, 1}, {2, 0, 3}};
  ForKernels(kLatent, [&](AttentionBackend backend, DType dtype) {
    const PagedBatch batch(dtype, kLatent, latent, 1, kCudaPages);
    EXPECT_EQ(Attend(batch, backend, Choice(batch, latent, 1000).Selection()), Attend(batch, backend, {.most = 1000}));
  });
}

// Others are NaN, and pages without a chosen key have ids far outside of the pool.
TEST(CudaGatheredKeys, KeysThatAreNotChosenAreNotRead) {
  const std::vector<BatchSequence> sequences = {{1, 599, 1}};
  ForKernels(kGrouped, [&](AttentionBackend backend, DType dtype) {
    const PagedBatch batch(dtype, kGrouped, sequences, 1, kCudaPages);
    const Choice choice(batch, sequences, 20);
    std::vector<float> unused(batch.out_floats());
    const PagedAttentionParams params = batch.Params(backend, unused.data());
    std::vector<int32_t> pages(params.page_table, params.page_table + batch.page_table_entries());
    PoisonedMemory pool(batch.pool_bytes());
    std::memcpy(pool.data(), params.kv_pool, batch.pool_bytes());
    const int32_t per_page = params.layout.tokens_per_page;
    int32_t hidden = 0;
    for (int32_t first = 0; first < 600; first += per_page) {
      int32_t& page = pages[static_cast<size_t>(first / per_page)];
      int32_t chosen = 0;
      for (int32_t key = first; key < std::min(first + per_page, 600); ++key) {
        if (choice.Has(0, key)) {
          ++chosen;
          continue;
        }
        for (int32_t head = 0; head < kGrouped.num_kv_heads; ++head) {
          kCudaPages.fill(params.layout, pool.data(), page, params.layer, head, key % per_page, NAN);
        }
      }
      if (chosen > 0) continue;
      page = kGarbagePage;
      ++hidden;
    }
    EXPECT_GT(hidden, 10);
    EXPECT_EQ(Attend(batch, backend, choice.Selection(), {.pool = pool.data(), .page_table = pages.data()}),
              Attend(batch, backend, choice.Selection()));
  });
}

// Rows are listed some at a time, and choices may be those of other rows.
TEST(CudaGatheredKeys, MoreRowsThanAreListedAtOnce) {
  constexpr HeadShape kOneHead = {1, 1, 64};
  const std::vector<BatchSequence> sequences = {{1, 4, 700}, {2, 0, 350}, {3, 9, 2}};
  const PagedBatch batch(DType::kBF16, kOneHead, sequences, 1, kCudaPages);
  const Choice choice(batch, sequences, 6);
  const std::vector<float> out = Attend(batch, AttentionBackend::kEfficient, choice.Selection());
  EXPECT_EQ(ListedSlots(), (std::vector<int32_t>{cuda::kGatheredRows, 28}));
  ExpectMatchesFp64(batch, choice, kOneHead, DType::kBF16, out);

  Choice reversed = choice;
  std::vector<int32_t> rows(static_cast<size_t>(choice.rows));
  for (int32_t row = 0; row < choice.rows; ++row) {
    const int32_t other = choice.rows - 1 - row;
    rows[static_cast<size_t>(row)] = other;
    for (int32_t word = 0; word < choice.stride; ++word) {
      reversed.Word(other, word * 32) = choice.bits[static_cast<size_t>(row * choice.stride + word)];
    }
  }
  KeySelection selection = reversed.Selection();
  selection.rows = rows.data();
  EXPECT_EQ(Attend(batch, AttentionBackend::kEfficient, selection), out);
}

// Sequences that verify guesses do not have the slots of a prompt's chunk.
TEST(CudaGatheredKeys, SlotsAreRowsWhateverTheLongestSequence) {
  constexpr HeadShape kOneHead = {1, 1, 64};
  std::vector<BatchSequence> sequences(64);
  for (size_t i = 0; i < sequences.size(); ++i) {
    sequences[i] = {.seed = i + 1, .first_position = static_cast<int32_t>(40 + i), .query_len = 3};
  }
  sequences.push_back({.seed = 65, .first_position = 0, .query_len = 320});
  const PagedBatch batch(DType::kBF16, kOneHead, sequences, 1, kCudaPages);
  const Choice choice(batch, sequences, 20);
  const std::vector<float> out = Attend(batch, AttentionBackend::kEfficient, choice.Selection());
  EXPECT_EQ(ListedSlots(), std::vector<int32_t>{512});
  ExpectMatchesFp64(batch, choice, kOneHead, DType::kBF16, out);
}

TEST(CudaGatheredKeys, WorkspacesHaveRoomForLists) {
  const PagedAttentionPlan plan{.traits = {.dtype = DType::kBF16,
                                           .head_dim = 576,
                                           .num_heads = 128,
                                           .num_kv_heads = 1,
                                           .v_head_dim = 512,
                                           .values_in_keys = true},
                                .max_query_tokens = 512,
                                .max_kv_tokens = 131072,
                                .selected_keys = 2048};
  PagedAttentionPlan all = plan;
  all.selected_keys = 0;
  for (const AttentionBackend backend : kBackends) {
    const size_t bytes = cuda::PagedWorkspaceBytes(kGatheringDevice, backend, plan);
    EXPECT_GE(bytes, cuda::PagedWorkspaceBytes(kGatheringDevice, backend, all));
    EXPECT_GE(bytes, cuda::GatheredListBytes(2048) +
                         cuda::PagedWorkspaceBytes(kGatheringDevice, backend, cuda::GatheredPlanOf(plan)));
  }
  EXPECT_EQ(cuda::GatheredListBytes(2048), size_t{1024} * (16 + 4 * 2048));
}

}  // namespace
}  // namespace dunlin::kernels::testing

// The device's EFFICIENT attention on the host, lane beside lane, over pages full of NaN where nothing was stored,
// against FP64.
#include "kernels/cuda/attention/efficient_row.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "kernels/cuda/kv_store.h"
#include "tests/kernels/cuda/host_matrix.h"
#include "tests/kernels/cuda/thread_lanes.h"

namespace dunlin::kernels::cuda {
namespace {

constexpr int32_t kKvHeads = 2;
constexpr int32_t kHeads = 6;

struct Problem {
  DType dtype = DType::kBF16;
  int32_t head_dim = 32;
  bool causal = true;
  int32_t window = 0;
  float softcap = 0.0F;
  float scale = 0.2F;
};

// Two sequences and an empty one between them, their pages out of order in one pool.
class PagedCase {
 public:
  explicit PagedCase(const Problem& problem)
      : problem_(problem),
        layout_(MakeKvLayout(problem.dtype, {.num_layers = 2, .num_kv_heads = kKvHeads, .head_dim = problem.head_dim})),
        spans_({{0, 3, 297, 0}, {3, 0, 0, 1}, {3, 5, 0, 2}}),
        pages_per_row_((300 + layout_.tokens_per_page - 1) / layout_.tokens_per_page) {
    const auto num_pages = static_cast<size_t>(pages_per_row_) * spans_.size();
    for (size_t i = 0; i < num_pages; ++i) page_table_.push_back(static_cast<int32_t>(num_pages - 1 - i));
    pool_.assign(num_pages * layout_.page_bytes, 0xFF);
    query_ = RandomValues(8 * kHeads * problem.head_dim, 1);
    out_.assign(query_.size(), 1e30F);
    for (size_t s = 0; s < spans_.size(); ++s) StoreSequence(static_cast<int32_t>(s));
  }

  PagedAttentionParams Params() {
    PagedAttentionParams params{};
    params.backend = AttentionBackend::kEfficient;
    params.query = query_.data();
    params.query_stride = int64_t{kHeads} * problem_.head_dim;
    params.out = out_.data();
    params.kv_pool = pool_.data();
    params.layout = layout_;
    params.layer = 1;
    params.num_heads = kHeads;
    params.page_table = page_table_.data();
    params.page_table_stride = pages_per_row_;
    params.sequences = spans_.data();
    params.num_sequences = static_cast<int32_t>(spans_.size());
    params.scale = problem_.scale;
    params.window = problem_.window;
    params.softcap = problem_.softcap;
    params.causal = problem_.causal;
    return params;
  }

  // Every row, by `lanes` lanes of kDims dims each; 0 is the single lane.
  template <int kDims>
  std::vector<float> Run(int32_t lanes) {
    const PagedAttentionParams params = Params();
    std::vector<float> weights(kChunkKeys);
    for (const SequenceSpan& span : spans_) {
      for (int32_t token = 0; token < span.query_len; ++token) {
        for (int32_t head = 0; head < kHeads; ++head) {
          if (lanes == 0) {
            EfficientPagedRow<kDims>(SingleLane(), params, span, token, head, weights.data());
          } else {
            RunLanes(lanes, [&](const ThreadLanes& each) {
              EfficientPagedRow<kDims>(each, params, span, token, head, weights.data());
            });
          }
        }
      }
    }
    return out_;
  }

  std::vector<double> Reference() const {
    std::vector<double> out(out_.size());
    for (const SequenceSpan& span : spans_) {
      for (int32_t token = 0; token < span.query_len; ++token) {
        for (int32_t head = 0; head < kHeads; ++head) ReferenceRow(span, token, head, &out);
      }
    }
    return out;
  }

  std::vector<float>& query() { return query_; }

 private:
  void StoreSequence(int32_t index) {
    const SequenceSpan& span = spans_[static_cast<size_t>(index)];
    for (int32_t key = 0; key < span.first_position + span.query_len; ++key) {
      for (int32_t head = 0; head < 2 * kKvHeads; ++head) {
        const auto seed = static_cast<uint32_t>(((index * 1000 + key) * 2 * kKvHeads + head) + 7);
        const std::vector<float> row = RandomValues(problem_.head_dim, seed);
        StoreHead(SingleLane(), layout_, Block(index, key, head), problem_.head_dim, key % layout_.tokens_per_page,
                  row.data());
      }
    }
  }

  // head: K heads, then V heads.
  unsigned char* Block(int32_t index, int32_t key, int32_t head) {
    const int32_t page = page_table_[static_cast<size_t>(index * pages_per_row_ + key / layout_.tokens_per_page)];
    return pool_.data() + (head < kKvHeads ? KeyBlockOffset(layout_, page, 1, head)
                                           : ValueBlockOffset(layout_, page, 1, head - kKvHeads));
  }
  double Stored(int32_t index, int32_t key, int32_t head, int32_t d) const {
    const unsigned char* block = const_cast<PagedCase*>(this)->Block(index, key, head);
    const int32_t slot = key % layout_.tokens_per_page;
    return double{BlockElement(layout_.dtype, block, KvElement(problem_.head_dim, slot, d))} *
           SlotScale(layout_, block, slot);
  }

  void ReferenceRow(const SequenceSpan& span, int32_t token, int32_t head, std::vector<double>* out) const {
    const int32_t position = span.first_position + token;
    const int32_t kv_len = span.first_position + span.query_len;
    const int32_t kv_head = head / (kHeads / kKvHeads);
    const int64_t row = (int64_t{span.query_start} + token) * kHeads + head;
    std::vector<double> scores;
    std::vector<int32_t> keys;
    for (int32_t key = 0; key < kv_len; ++key) {
      if (problem_.causal && key > position) continue;
      if (problem_.window > 0 && key <= position - problem_.window) continue;
      double score = 0.0;
      for (int32_t d = 0; d < problem_.head_dim; ++d) {
        score +=
            query_[static_cast<size_t>(row * problem_.head_dim + d)] * Stored(span.page_table_row, key, kv_head, d);
      }
      score *= problem_.scale;
      if (problem_.softcap > 0) score = problem_.softcap * std::tanh(score / problem_.softcap);
      scores.push_back(score);
      keys.push_back(key);
    }
    double maximum = -INFINITY;
    for (const double score : scores) maximum = std::max(maximum, score);
    double sum = 0.0;
    for (double& score : scores) sum += score = std::exp(score - maximum);
    for (int32_t d = 0; d < problem_.head_dim; ++d) {
      double value = 0.0;
      for (size_t i = 0; i < keys.size(); ++i) {
        value += scores[i] * Stored(span.page_table_row, keys[i], kKvHeads + kv_head, d);
      }
      (*out)[static_cast<size_t>(row * problem_.head_dim + d)] = value / sum;
    }
  }

  const Problem problem_;
  const KvLayout layout_;
  const std::vector<SequenceSpan> spans_;
  const int32_t pages_per_row_;
  std::vector<int32_t> page_table_;
  std::vector<unsigned char> pool_;
  std::vector<float> query_;
  std::vector<float> out_;
};

void ExpectNear(const std::vector<float>& out, const std::vector<double>& expected) {
  for (size_t i = 0; i < out.size(); ++i) {
    ASSERT_NEAR(out[i], expected[i], 5e-6 * (1 + std::fabs(expected[i]))) << "element " << i;
  }
}

TEST(EfficientRow, IsTheSoftmaxOfWhatTheRowSees) {
  for (const DType dtype : {DType::kF32, DType::kF16, DType::kBF16, DType::kF8E4M3}) {
    for (const Problem& problem :
         {Problem{dtype, 64, true, 0, 0.0F, 0.125F}, Problem{dtype, 33, true, 40, 0.0F, 0.2F},
          Problem{dtype, 16, true, 0, 1.5F, 0.5F}, Problem{dtype, 40, false, 0, 0.0F, -0.2F}}) {
      PagedCase paged(problem);
      ExpectNear(paged.Run<64>(0), paged.Reference());
    }
  }
}

TEST(EfficientRow, LanesShareARow) {
  PagedCase codes(Problem{DType::kF8E4M3, 48, true, 0, 0.0F, 0.15F});
  ExpectNear(codes.Run<12>(4), codes.Reference());
  PagedCase halves(Problem{DType::kBF16, 31, true, 30, 0.0F, 0.15F});
  ExpectNear(halves.Run<16>(2), halves.Reference());
}

TEST(EfficientRow, NanStaysInItsRow) {
  PagedCase paged(Problem{});
  const std::vector<float> before = paged.Run<32>(0);
  paged.query()[5 * kHeads * 32] = NAN;  // token 5, head 0
  const std::vector<float> after = paged.Run<32>(0);
  for (size_t i = 0; i < before.size(); ++i) {
    const bool own = i / 32 == 5 * kHeads;
    if (own) {
      EXPECT_TRUE(std::isnan(after[i]));
    } else {
      EXPECT_EQ(after[i], before[i]);
    }
  }
}

TEST(EfficientRow, ChunksStandAtMultiplesOfTheirSize) {
  // A window that moves by one changes a row's first chunk alone: the others are the same sums.
  EXPECT_EQ(VisibleKeys(299, 300, true, 0).start, 0);
  EXPECT_EQ(VisibleKeys(299, 300, true, 0).end, 300);
  EXPECT_EQ(VisibleKeys(299, 300, true, 40).start, 260);
  EXPECT_EQ(VisibleKeys(10, 300, true, 40).start, 0);
  EXPECT_EQ(VisibleKeys(10, 300, true, 11).start, 0);
  EXPECT_EQ(VisibleKeys(10, 300, true, 10).start, 1);
  EXPECT_EQ(VisibleKeys(10, 300, false, 0).end, 300);
  // A row that sees 257 keys merges a chunk of 256 with one of 1: with the second's weight gone it is the first.
  PartialRow<1> row{.maximum = 1.0F, .sum = 2.0F, .values = {3.0F}};
  Merge(PartialRow<1>{.maximum = -INFINITY, .sum = 0.0F, .values = {0.0F}}, &row);
  EXPECT_EQ(row.values[0], 3.0F);
  Merge(PartialRow<1>{.maximum = 2.0F, .sum = 1.0F, .values = {5.0F}}, &row);
  EXPECT_EQ(row.maximum, 2.0F);
  EXPECT_EQ(row.sum, 2.0F);
  EXPECT_EQ(row.values[0], 1.5F + 5.0F);
}

}  // namespace
}  // namespace dunlin::kernels::cuda

// SPDX-License-Identifier: Apache-2.0
// The norm over each head of Q and K before the rotation, and over all heads together, and the factor of queries by
// position, and the norm of V: against double arithmetic, and the same bits for a token alone, among others and on any
// number of threads.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <vector>

#include "kernels/cpu/attention/kv_block.h"
#include "tests/kernels/attention/devices.h"
#include "tests/kernels/attention/synthetic.h"

namespace dunlin::kernels::testing {
namespace {

constexpr int32_t kNormHeads = 6;
constexpr int32_t kNormKvHeads = 2;
constexpr int32_t kHeadDim = 20;
constexpr int32_t kRotaryDim = 12;
constexpr int32_t kTokens = 90;
constexpr int32_t kColumns = (kNormHeads + 2 * kNormKvHeads) * kHeadDim;
constexpr float kEpsilon = 1e-6F;
constexpr float kScaleBeta = 0.3F;
constexpr int32_t kScalePeriod = 16;
constexpr int32_t kScaleOffset = 3;

class QkNormTest : public ::testing::TestWithParam<std::tuple<std::string, bool>> {
 protected:
  static std::string variant() { return std::get<0>(GetParam()); }
  static bool joint() { return std::get<1>(GetParam()); }

  QkNormTest()
      : layout_(MakeKvLayout(DType::kF32, {.num_layers = 1, .num_kv_heads = kNormKvHeads, .head_dim = kHeadDim})) {
    for (int32_t t = 0; t < kTokens; ++t) {
      page_.push_back(t / layout_.tokens_per_page);
      slot_.push_back(t % layout_.tokens_per_page);
      position_.push_back(t);
      for (int32_t i = 0; i < kColumns; ++i) qkv_.push_back(3.0F * Synthetic(7, Kind::kQuery, t, 0, i));
      for (int32_t i = 0; i < kRotaryDim; ++i) {
        cos_sin_.push_back(static_cast<float>(i < kRotaryDim / 2 ? std::cos(t + i) : std::sin(t + i - kRotaryDim / 2)));
      }
    }
    for (int32_t i = 0; i < (joint() ? kNormHeads : 1) * kHeadDim; ++i) {
      query_norm_.push_back(1.0F + 0.1F * static_cast<float>(i % 23));
      key_norm_.push_back(2.0F - 0.05F * static_cast<float>(i % 19));
    }
  }

  // Tokens [first, first + count); returns their rows and fills the pool.
  std::vector<float> Run(int threads, int32_t first, int32_t count, PoisonedMemory* pool, bool value_norm = false,
                         bool norms_after = false) {
    std::vector<float> qkv(qkv_.begin() + first * kColumns, qkv_.begin() + (first + count) * kColumns);
    Device& device = CpuDevice(variant(), threads);
    RotateAndStoreKvParams params{};
    params.qkv = qkv.data();
    params.cos_sin = cos_sin_.data() + first * kRotaryDim;
    params.rotary_dim = kRotaryDim;
    params.num_heads = kNormHeads;
    params.kv_pool = pool->data();
    params.layout = layout_;
    params.token_page = page_.data() + first;
    params.token_slot = slot_.data() + first;
    params.num_tokens = count;
    params.query_norm = query_norm_.data();
    params.key_norm = key_norm_.data();
    params.norm_epsilon = kEpsilon;
    params.joint_norms = joint();
    params.value_norm = value_norm;
    params.norms_after = norms_after;
    params.query_scale = {
        .positions = position_.data() + first, .beta = kScaleBeta, .period = kScalePeriod, .offset = kScaleOffset};
    EXPECT_EQ(device.ops->rotate_and_store_kv(device.context, params), KernelStatus::kOk);
    EXPECT_TRUE(pool->Intact());
    return qkv;
  }

  size_t PoolBytes() const { return static_cast<size_t>(page_.back() + 1) * layout_.page_bytes; }

  // A head of a token, normed, rotated and, of Q, scaled in double.
  std::vector<double> Exact(int32_t t, int32_t head) const {
    const float* row = qkv_.data() + t * kColumns + head * kHeadDim;
    const std::vector<float>& weight = head < kNormHeads ? query_norm_ : key_norm_;
    const int32_t first = head < kNormHeads ? 0 : kNormHeads;  // of the norm's heads
    const int32_t width = joint() ? (head < kNormHeads ? kNormHeads : kNormKvHeads) * kHeadDim : kHeadDim;
    const int32_t at = joint() ? (head - first) * kHeadDim : 0;  // of this head among them
    double square = 0;
    for (int32_t d = 0; d < width; ++d) square += static_cast<double>(row[d - at]) * static_cast<double>(row[d - at]);
    std::vector<double> normed;
    for (int32_t d = 0; d < kHeadDim; ++d) {
      normed.push_back(row[d] / std::sqrt(square / width + static_cast<double>(kEpsilon)) *
                       static_cast<double>(weight[static_cast<size_t>(at + d)]));
    }
    std::vector<double> out = normed;
    for (size_t i = 0; i < kRotaryDim / 2; ++i) {
      const double cosine = cos_sin_[static_cast<size_t>(t * kRotaryDim) + i];
      const double sine = cos_sin_[static_cast<size_t>(t * kRotaryDim + kRotaryDim / 2) + i];
      out[i] = normed[i] * cosine - normed[i + kRotaryDim / 2] * sine;
      out[i + kRotaryDim / 2] = normed[i + kRotaryDim / 2] * cosine + normed[i] * sine;
    }
    if (head >= kNormHeads) return out;
    for (double& value : out)
      value *= 1.0 + static_cast<double>(kScaleBeta) * std::log(1.0 + (t + kScaleOffset) / kScalePeriod);
    return out;
  }

  KvLayout layout_;
  std::vector<int32_t> page_, slot_, position_;
  std::vector<float> qkv_, cos_sin_, query_norm_, key_norm_;
};

TEST_P(QkNormTest, NormsMayFollowTheRotation) {
  if (joint()) return;
  PoisonedMemory pool(PoolBytes());
  const std::vector<float> after = Run(2, 0, kTokens, &pool, false, true);
  double largest = 0;
  for (int32_t t = 0; t < kTokens; ++t) {
    const float* row = after.data() + t * kColumns;
    double square = 0;  // of the rotated head without its factor by position
    std::vector<double> rotated(qkv_.begin() + t * kColumns, qkv_.begin() + t * kColumns + kHeadDim);
    for (size_t i = 0; i < kRotaryDim / 2; ++i) {
      const double cosine = cos_sin_[static_cast<size_t>(t * kRotaryDim) + i];
      const double sine = cos_sin_[static_cast<size_t>(t * kRotaryDim + kRotaryDim / 2) + i];
      const double a = rotated[i];
      const double b = rotated[i + kRotaryDim / 2];
      rotated[i] = a * cosine - b * sine;
      rotated[i + kRotaryDim / 2] = b * cosine + a * sine;
    }
    for (const double value : rotated) square += value * value;
    const double factor = 1.0 + static_cast<double>(kScaleBeta) * std::log(1.0 + (t + kScaleOffset) / kScalePeriod);
    const std::vector<double> before = Exact(t, 0);
    for (size_t d = 0; d < kHeadDim; ++d) {
      const double exact = rotated[d] / std::sqrt(square / kHeadDim + static_cast<double>(kEpsilon)) *
                           static_cast<double>(query_norm_[d]) * factor;
      ASSERT_NEAR(row[d], exact, 4e-6) << t << " " << d;
      largest = std::max(largest, std::fabs(exact - before[d]));
    }
  }
  EXPECT_GT(largest, 0.1) << "the order matters";
}

TEST_P(QkNormTest, MatchesDoubleAndLeavesValuesAlone) {
  PoisonedMemory pool(PoolBytes());
  const std::vector<float> qkv = Run(2, 0, kTokens, &pool);
  std::vector<float> stored(kHeadDim);
  for (int32_t t = 0; t < kTokens; ++t) {
    for (int32_t head = 0; head < kNormHeads + kNormKvHeads; ++head) {
      const std::vector<double> exact = Exact(t, head);
      const float* row = qkv.data() + t * kColumns + head * kHeadDim;
      if (head >= kNormHeads) {
        const std::byte* block =
            cpu::KeyBlock(pool.data(), layout_, page_[static_cast<size_t>(t)], 0, head - kNormHeads);
        cpu::LoadKey(layout_, block, slot_[static_cast<size_t>(t)], stored.data());
        row = stored.data();
      }
      for (size_t d = 0; d < kHeadDim; ++d) ASSERT_NEAR(row[d], exact[d], 4e-6) << t << " " << head << " " << d;
    }
    for (int32_t head = 0; head < kNormKvHeads; ++head) {
      const std::byte* block = cpu::KeyBlock(pool.data(), layout_, page_[static_cast<size_t>(t)], 0, head);
      cpu::LoadValue(layout_, block + layout_.key_block_bytes, slot_[static_cast<size_t>(t)], stored.data());
      const float* value = qkv_.data() + t * kColumns + (kNormHeads + kNormKvHeads + head) * kHeadDim;
      ASSERT_EQ(std::memcmp(stored.data(), value, kHeadDim * sizeof(float)), 0);
    }
  }
}

TEST_P(QkNormTest, ValuesAreNormedWithoutAWeight) {
  PoisonedMemory pool(PoolBytes());
  PoisonedMemory alone(PoolBytes());
  (void)Run(2, 0, kTokens, &pool, true);
  std::vector<float> stored(kHeadDim);
  for (int32_t t = 0; t < kTokens; ++t) {
    (void)Run(1, t, 1, &alone, true);
    for (int32_t head = 0; head < kNormKvHeads; ++head) {
      const std::byte* block = cpu::KeyBlock(pool.data(), layout_, page_[static_cast<size_t>(t)], 0, head);
      cpu::LoadValue(layout_, block + layout_.key_block_bytes, slot_[static_cast<size_t>(t)], stored.data());
      const float* value = qkv_.data() + t * kColumns + (kNormHeads + kNormKvHeads + head) * kHeadDim;
      double square = 0;
      for (int32_t d = 0; d < kHeadDim; ++d) square += static_cast<double>(value[d]) * static_cast<double>(value[d]);
      const double norm = std::sqrt(square / kHeadDim + static_cast<double>(kEpsilon));
      for (size_t d = 0; d < kHeadDim; ++d) ASSERT_NEAR(stored[d], value[d] / norm, 1e-6) << t << " " << head;
    }
  }
  EXPECT_EQ(std::memcmp(pool.data(), alone.data(), pool.size()), 0);
}

// Rows of queries alone get the bits that they have in front of keys and values, and no page is touched.
TEST_P(QkNormTest, QueriesAloneAreRotatedAlike) {
  PoisonedMemory pool(PoolBytes());
  const std::vector<float> all = Run(2, 0, kTokens, &pool);
  constexpr int32_t kWidth = kNormHeads * kHeadDim;
  std::vector<float> queries;
  for (int32_t t = 0; t < kTokens; ++t) {
    queries.insert(queries.end(), qkv_.begin() + t * kColumns, qkv_.begin() + t * kColumns + kWidth);
  }
  PoisonedMemory untouched(PoolBytes());
  const std::vector<std::byte> before(untouched.data(), untouched.data() + untouched.size());
  Device& device = CpuDevice(variant(), 2);
  RotateAndStoreKvParams params{
      .qkv = queries.data(),
      .cos_sin = cos_sin_.data(),
      .rotary_dim = kRotaryDim,
      .num_heads = kNormHeads,
      .kv_pool = untouched.data(),
      .layout = layout_,
      .layer = 0,
      .token_page = page_.data(),
      .token_slot = slot_.data(),
      .num_tokens = kTokens,
      .query_norm = query_norm_.data(),
      .norm_epsilon = kEpsilon,
      .joint_norms = joint(),
      .query_only = true,
      .query_scale = {
          .positions = position_.data(), .beta = kScaleBeta, .period = kScalePeriod, .offset = kScaleOffset}};
  ASSERT_EQ(device.ops->rotate_and_store_kv(device.context, params), KernelStatus::kOk);
  for (int32_t t = 0; t < kTokens; ++t) {
    EXPECT_TRUE(
        std::equal(queries.begin() + t * kWidth, queries.begin() + (t + 1) * kWidth, all.begin() + t * kColumns))
        << t;
  }
  EXPECT_EQ(std::memcmp(before.data(), untouched.data(), before.size()), 0);
  // Some of them, with the rotations of their places.
  const std::vector<int32_t> kept = {3, 4, 17, 89};
  queries.clear();
  for (const int32_t t : kept) {
    queries.insert(queries.end(), qkv_.begin() + t * kColumns, qkv_.begin() + t * kColumns + kWidth);
  }
  params.qkv = queries.data();
  params.num_tokens = static_cast<int32_t>(kept.size());
  params.rows = kept.data();
  ASSERT_EQ(device.ops->rotate_and_store_kv(device.context, params), KernelStatus::kOk);
  for (size_t i = 0; i < kept.size(); ++i) {
    EXPECT_TRUE(std::equal(queries.begin() + static_cast<int64_t>(i) * kWidth,
                           queries.begin() + static_cast<int64_t>(i + 1) * kWidth, all.begin() + kept[i] * kColumns))
        << kept[i];
  }
}

TEST_P(QkNormTest, ATokenHasTheSameBitsAloneAndOnAnyNumberOfThreads) {
  PoisonedMemory together(PoolBytes());
  const std::vector<float> all = Run(1, 0, kTokens, &together);
  PoisonedMemory threaded(PoolBytes());
  EXPECT_EQ(Run(4, 0, kTokens, &threaded), all);
  EXPECT_EQ(std::memcmp(together.data(), threaded.data(), together.size()), 0);
  PoisonedMemory alone(PoolBytes());
  for (int32_t t = 0; t < kTokens; ++t) {
    const std::vector<float> row = Run(2, t, 1, &alone);
    EXPECT_TRUE(std::equal(row.begin(), row.end(), all.begin() + t * kColumns)) << t;
  }
  EXPECT_EQ(std::memcmp(together.data(), alone.data(), together.size()), 0);
}

INSTANTIATE_TEST_SUITE_P(Variants, QkNormTest,
                         ::testing::Combine(::testing::ValuesIn(AvailableCpuVariants()), ::testing::Bool()),
                         [](const auto& test) {
                           return std::get<0>(test.param) + (std::get<1>(test.param) ? "_joint" : "_per_head");
                         });

}  // namespace
}  // namespace dunlin::kernels::testing

// SPDX-License-Identifier: Apache-2.0
// Rotation and storing of a step's keys and values: against double arithmetic, with any slots, on any number of
// threads.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <vector>

#include "kernels/cpu/attention/kv_block.h"
#include "tests/kernels/attention/devices.h"
#include "tests/kernels/attention/synthetic.h"

namespace dunlin::kernels::testing {
namespace {

constexpr int32_t kHeads = 6;
constexpr int32_t kKvHeads = 2;
constexpr int32_t kFirstPosition = 5;  // an odd slot: its pair began in an earlier step

struct StoreCase {
  DType dtype;
  int32_t head_dim;
  int32_t rotary_dim;  // 0 for none
  int32_t num_tokens;
};

class StoreKvTest : public ::testing::TestWithParam<StoreCase> {
 protected:
  StoreKvTest()
      : store_(GetParam()),
        layout_(MakeKvLayout(store_.dtype, {.num_layers = 2, .num_kv_heads = kKvHeads, .head_dim = store_.head_dim})),
        columns_((kHeads + 2 * kKvHeads) * store_.head_dim) {
    const int32_t tokens_per_page = layout_.tokens_per_page;
    num_pages_ = (kFirstPosition + store_.num_tokens) / tokens_per_page + 1;
    for (int32_t t = 0; t < store_.num_tokens; ++t) {
      page_.push_back(num_pages_ - 1 - (kFirstPosition + t) / tokens_per_page);
      slot_.push_back((kFirstPosition + t) % tokens_per_page);
      for (int32_t i = 0; i < columns_; ++i) qkv_.push_back(Synthetic(5, Kind::kQuery, t, 0, i));
      for (int32_t i = 0; i < store_.rotary_dim / 2; ++i) cos_sin_.push_back(static_cast<float>(std::cos(t + i)));
      for (int32_t i = 0; i < store_.rotary_dim / 2; ++i) cos_sin_.push_back(static_cast<float>(std::sin(t + i)));
    }
  }

  // Runs on a copy of qkv_, which it returns; fills *pool.
  std::vector<float> Run(const std::string& variant, int threads, PoisonedMemory* pool) {
    std::vector<float> qkv = qkv_;
    Device& device = CpuDevice(variant, threads);
    EXPECT_EQ(
        device.ops->rotate_and_store_kv(device.context, {.qkv = qkv.data(),
                                                         .cos_sin = store_.rotary_dim > 0 ? cos_sin_.data() : nullptr,
                                                         .rotary_dim = store_.rotary_dim,
                                                         .num_heads = kHeads,
                                                         .kv_pool = pool->data(),
                                                         .layout = layout_,
                                                         .layer = 1,
                                                         .token_page = page_.data(),
                                                         .token_slot = slot_.data(),
                                                         .num_tokens = store_.num_tokens}),
        KernelStatus::kOk);
    EXPECT_TRUE(pool->Intact());
    return qkv;
  }

  // Element d of head `head` (of Q, K and V heads in a row) of token t after rotation, in double.
  double Rotated(int32_t t, int32_t head, int32_t d) const {
    const float* row = qkv_.data() + int64_t{t} * columns_ + head * store_.head_dim;
    const int32_t half = store_.rotary_dim / 2;
    if (head >= kHeads + kKvHeads || d >= 2 * half) return row[d];
    const int32_t i = d % half;
    const double cosine = cos_sin_[static_cast<size_t>(t * 2 * half + i)];
    const double sine = cos_sin_[static_cast<size_t>(t * 2 * half + half + i)];
    return d < half ? row[d] * cosine - row[d + half] * sine : row[d] * cosine + row[d - half] * sine;
  }

  StoreCase store_;
  KvLayout layout_;
  int32_t columns_;
  int32_t num_pages_;
  std::vector<int32_t> page_, slot_;
  std::vector<float> qkv_, cos_sin_;
};

TEST_P(StoreKvTest, RotatesAndStoresEveryToken) {
  const double tolerance = store_.dtype == DType::kF32      ? 3e-7
                           : store_.dtype == DType::kF16    ? 1e-3
                           : store_.dtype == DType::kF8E4M3 ? 0.06
                                                            : 8e-3;
  std::vector<float> stored(static_cast<size_t>(store_.head_dim));
  for (const std::string& variant : AvailableCpuVariants()) {
    PoisonedMemory pool(static_cast<size_t>(num_pages_) * layout_.page_bytes);
    const std::vector<float> qkv = Run(variant, 2, &pool);
    for (int32_t t = 0; t < store_.num_tokens; ++t) {
      for (int32_t head = 0; head < kHeads; ++head) {
        for (int32_t d = 0; d < store_.head_dim; ++d) {
          EXPECT_NEAR(qkv[static_cast<size_t>(t * columns_ + head * store_.head_dim + d)], Rotated(t, head, d), 3e-7);
        }
      }
      for (int32_t head = 0; head < kKvHeads; ++head) {
        const std::byte* block = cpu::KeyBlock(pool.data(), layout_, page_[static_cast<size_t>(t)], 1, head);
        cpu::LoadKey(layout_, block, slot_[static_cast<size_t>(t)], stored.data());
        for (int32_t d = 0; d < store_.head_dim; ++d) {
          EXPECT_NEAR(stored[static_cast<size_t>(d)], Rotated(t, kHeads + head, d), tolerance) << variant;
        }
        cpu::LoadValue(layout_, block + layout_.key_block_bytes, slot_[static_cast<size_t>(t)], stored.data());
        std::vector<float> value(stored.size());
        for (int32_t d = 0; d < store_.head_dim; ++d) {
          value[static_cast<size_t>(d)] = static_cast<float>(Rotated(t, kHeads + kKvHeads + head, d));
        }
        EXPECT_EQ(stored, RoundRow(store_.dtype, value)) << variant;
      }
    }
  }
}

TEST_P(StoreKvTest, ThreadsAndVariantsWriteTheSameBytes) {
  PoisonedMemory expected(static_cast<size_t>(num_pages_) * layout_.page_bytes);
  const std::vector<float> qkv = Run("portable", 1, &expected);
  for (const std::string& variant : AvailableCpuVariants()) {
    for (int repeat = 0; repeat < 20; ++repeat) {
      PoisonedMemory pool(expected.size());
      EXPECT_EQ(Run(variant, 4, &pool), qkv) << variant;
      EXPECT_EQ(std::memcmp(pool.data(), expected.data(), pool.size()), 0) << variant;
    }
  }
}

// What an earlier step put into the even half of a pair stays when a later step writes the odd half.
TEST_P(StoreKvTest, KeepsThePartnerWrittenBefore) {
  PoisonedMemory pool(static_cast<size_t>(num_pages_) * layout_.page_bytes);
  const std::vector<float> before(static_cast<size_t>(store_.head_dim), 0.5F);
  std::byte* block = cpu::KeyBlock(pool.data(), layout_, page_[0], 1, 0);
  cpu::StoreToken(layout_, block, kFirstPosition - 1, before.data(), before.data());
  Run("", 2, &pool);
  std::vector<float> row(before.size());
  cpu::LoadKey(layout_, block, kFirstPosition - 1, row.data());
  EXPECT_EQ(row, before);
  cpu::LoadValue(layout_, block + layout_.key_block_bytes, kFirstPosition - 1, row.data());
  EXPECT_EQ(row, before);
}

std::string StoreCaseName(const ::testing::TestParamInfo<StoreCase>& test) {
  return std::string(Name(test.param.dtype)) + "_d" + std::to_string(test.param.head_dim) + "_r" +
         std::to_string(test.param.rotary_dim) + "_t" + std::to_string(test.param.num_tokens);
}

std::vector<StoreCase> AllStoreCases() {
  std::vector<StoreCase> cases;
  for (const DType dtype : kKvDTypes) {
    for (const auto& [head_dim, rotary_dim] : {std::pair{64, 64}, {80, 20}, {9, 4}, {64, 0}, {1, 0}}) {
      for (const int32_t num_tokens : {1, 90}) cases.push_back({dtype, head_dim, rotary_dim, num_tokens});
    }
  }
  return cases;
}

INSTANTIATE_TEST_SUITE_P(Grid, StoreKvTest, ::testing::ValuesIn(AllStoreCases()), StoreCaseName);

}  // namespace
}  // namespace dunlin::kernels::testing

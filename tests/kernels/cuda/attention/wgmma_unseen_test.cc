// SPDX-License-Identifier: Apache-2.0
// What a row must not see leaves no trace in it, by every shape of FLASH by wgmma on the host's machine: NaN and
// infinities in the unused slots of a last page, in tokens before a window and in later tokens. What it sees shows.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <vector>

#include "tests/kernels/cuda/attention/host_attention.h"

namespace dunlin::kernels::testing {
namespace {

struct UnseenCase {
  DType dtype;
  HeadShape shape;
  float softcap = 0.0F;
};
constexpr UnseenCase kUnseenCases[] = {
    {DType::kBF16, {2, 1, 64}},       {DType::kF16, {2, 1, 128}},       {DType::kBF16, {2, 1, 256}},
    {DType::kF16, {2, 1, 512}},       {DType::kBF16, {2, 1, 576, 512}}, {DType::kF8E4M3, {2, 1, 128}},
    {DType::kF8E4M3, {2, 1, 512}},    {DType::kBF16, {2, 1, 64}, 5.0F}, {DType::kF8E4M3, {2, 1, 64}, 5.0F},
    {DType::kBF16, {2, 1, 400, 272}},
};
constexpr int32_t kUnseenWindow = 100;
constexpr int32_t kPoisonedFrom = 70;  // of the last sequence
constexpr int32_t kLastTokens = 90;

// Rows that a batch poisons, which are NaN, hold `unseen_value` instead.
float unseen_value = NAN;
void StoreUnseen(const KvLayout& layout, std::byte* pool, int32_t page, int32_t layer, int32_t kv_head, int32_t slot,
                 const float* key, const float* value) {
  const std::vector<float> unseen(static_cast<size_t>(layout.shape.head_dim), unseen_value);
  if (std::isnan(key[0])) {
    key = unseen.data();
    if (value != nullptr) value = unseen.data();
  }
  kCudaPages.store(layout, pool, page, layer, kv_head, slot, key, value);
}
void FillUnseen(const KvLayout& layout, std::byte* pool, int32_t page, int32_t layer, int32_t kv_head, int32_t slot,
                float value) {
  kCudaPages.fill(layout, pool, page, layer, kv_head, slot, value);
}
constexpr PageFormat kUnseenPages = {StoreUnseen, FillUnseen};

class WgmmaUnseen : public ::testing::TestWithParam<UnseenCase> {
 protected:
  // One token, a chunk behind a window, and a chunk of which later rows alone see what is poisoned.
  static std::vector<float> Run(bool poisoned) {
    const auto from = [poisoned](int32_t position) { return poisoned ? position : 0; };
    PagedBatch batch(GetParam().dtype, GetParam().shape,
                     {{1, 1040, 1, INT32_MAX, from(1041 - kUnseenWindow)},
                      {2, 1000, 40, INT32_MAX, from(1001 - kUnseenWindow)},
                      {3, 0, kLastTokens, poisoned ? kPoisonedFrom : INT32_MAX}},
                     1, kUnseenPages);
    batch.window = kUnseenWindow;
    batch.softcap = GetParam().softcap;
    batch.FillUnusedSlots(poisoned ? unseen_value : 0.0F);
    return Hopper().Paged(batch, AttentionBackend::kFlash, Division::kAsPlanned);
  }
};

TEST_P(WgmmaUnseen, LeavesNoTrace) {
  const auto row = static_cast<size_t>(GetParam().shape.num_heads * GetParam().shape.out_dim());
  const size_t seen = (1 + 40 + kPoisonedFrom) * row;
  const std::vector<float> clean = Run(false);
  ASSERT_EQ(clean.size(), seen + (kLastTokens - kPoisonedFrom) * row);
  for (const float value : clean) ASSERT_TRUE(std::isfinite(value));
  for (const float unseen : {NAN, INFINITY, -INFINITY}) {
    unseen_value = unseen;
    const std::vector<float> poisoned = Run(true);
    EXPECT_EQ(std::memcmp(clean.data(), poisoned.data(), seen * sizeof(float)), 0) << unseen;
    for (size_t i = seen; i < poisoned.size(); ++i) ASSERT_FALSE(std::isfinite(poisoned[i])) << unseen << ", " << i;
  }
}

INSTANTIATE_TEST_SUITE_P(Shapes, WgmmaUnseen, ::testing::ValuesIn(kUnseenCases), [](const auto& test) {
  return std::string(Name(test.param.dtype)) + "_" + std::to_string(test.param.shape.head_dim) +
         (test.param.softcap > 0.0F ? "_capped" : "");
});

// Values of which one dimension is infinite here and there, keys and queries that are finite.
constexpr int32_t kInfiniteDim = 5;
void StoreInfinite(const KvLayout& layout, std::byte* pool, int32_t page, int32_t layer, int32_t kv_head, int32_t slot,
                   const float* key, const float* value) {
  std::vector<float> infinite(value, value + layout.shape.head_dim);
  if (infinite[kInfiniteDim] > 0.95F) infinite[kInfiniteDim] = INFINITY;
  kCudaPages.store(layout, pool, page, layer, kv_head, slot, key, infinite.data());
}
constexpr PageFormat kInfinitePages = {StoreInfinite, FillUnseen};

void ExpectInfinitiesToReach(const UnseenCase& of) {
  const std::vector<BatchSequence> sequences = {{4, 0, 190}};
  std::vector<float> outs[2];
  for (const PageFormat& pages : {kUnseenPages, kInfinitePages}) {
    PagedBatch batch(of.dtype, of.shape, sequences, 1, pages);
    batch.softcap = of.softcap;
    outs[pages.store == StoreInfinite ? 1 : 0] = Hopper().Paged(batch, AttentionBackend::kFlash, Division::kAsPlanned);
  }
  bool reached = false;
  bool missed = false;
  for (size_t i = 0; i < outs[0].size(); ++i) {
    const bool here = i % static_cast<size_t>(of.shape.head_dim) == kInfiniteDim;
    if (here && !std::isfinite(outs[1][i])) {
      reached = true;
      continue;
    }
    ASSERT_EQ(outs[1][i], outs[0][i]) << i;
    ASSERT_FALSE(here && reached) << i << ": a later row sees it, too";
    missed = missed || here;
  }
  EXPECT_TRUE(reached && missed);
}

// Codes have no infinities, and of keys that hold values every score would have one.
TEST(WgmmaUnseenValues, InfinitiesReachTheRowsThatSeeThemAndTheirDimensionAlone) {
  for (const UnseenCase& of : kUnseenCases) {
    if (of.dtype == DType::kF8E4M3 || of.shape.v_head_dim != 0) continue;
    SCOPED_TRACE(of.shape.head_dim);
    ASSERT_NO_FATAL_FAILURE(ExpectInfinitiesToReach(of));
  }
}

}  // namespace
}  // namespace dunlin::kernels::testing

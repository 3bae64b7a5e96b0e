// SPDX-License-Identifier: Apache-2.0
// The KV page block: what is written comes back, nothing else is touched, and the order is the documented one.
#include "kernels/cpu/attention/kv_block.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "tests/kernels/attention/devices.h"
#include "tests/kernels/attention/synthetic.h"

namespace dunlin::kernels::testing {
namespace {

class KvBlockTest : public ::testing::TestWithParam<std::tuple<DType, int32_t>> {
 protected:
  KvBlockTest()
      : layout_(MakeKvLayout(std::get<0>(GetParam()),
                             {.num_layers = 2, .num_kv_heads = 3, .head_dim = std::get<1>(GetParam())})),
        pool_(3 * layout_.page_bytes) {}

  std::vector<float> Token(Kind kind, int32_t token) const {
    std::vector<float> row(static_cast<size_t>(layout_.shape.head_dim));
    for (int32_t d = 0; d < layout_.shape.head_dim; ++d) {
      row[static_cast<size_t>(d)] = Synthetic(3, kind, token, 0, d);
    }
    return row;
  }
  std::vector<float> Rounded(std::vector<float> row) const { return RoundRow(layout_.dtype, std::move(row)); }

  KvLayout layout_;
  PoisonedMemory pool_;
};

TEST_P(KvBlockTest, TokensComeBackRounded) {
  std::byte* keys = cpu::KeyBlock(pool_.data(), layout_, 2, 1, 2);
  std::byte* values = keys + layout_.key_block_bytes;
  for (int32_t slot = 0; slot < layout_.tokens_per_page; ++slot) {
    cpu::StoreToken(layout_, keys, slot, Token(Kind::kKey, slot).data(), Token(Kind::kValue, slot).data());
  }
  std::vector<float> row(static_cast<size_t>(layout_.shape.head_dim));
  for (int32_t slot = 0; slot < layout_.tokens_per_page; ++slot) {
    cpu::LoadKey(layout_, keys, slot, row.data());
    EXPECT_EQ(row, Rounded(Token(Kind::kKey, slot)));
    cpu::LoadValue(layout_, values, slot, row.data());
    EXPECT_EQ(row, Rounded(Token(Kind::kValue, slot)));
  }
  EXPECT_TRUE(pool_.Intact());
  for (const std::byte* p = pool_.data(); p < keys; ++p) ASSERT_EQ(*p, std::byte{0xFF}) << "before the block";
}

TEST_P(KvBlockTest, OneTokenTouchesItsSlotAndTheOddPartnerOnly) {
  std::byte* keys = cpu::KeyBlock(pool_.data(), layout_, 1, 0, 1);
  std::byte* values = keys + layout_.key_block_bytes;
  constexpr int32_t kSlot = 4;
  cpu::StoreToken(layout_, keys, kSlot, Token(Kind::kKey, kSlot).data(), Token(Kind::kValue, kSlot).data());
  std::vector<float> row(static_cast<size_t>(layout_.shape.head_dim));
  for (int32_t slot = 0; slot < layout_.tokens_per_page; ++slot) {
    if (slot == kSlot) continue;
    cpu::LoadKey(layout_, keys, slot, row.data());
    for (const float x : row) EXPECT_TRUE(std::isnan(x)) << slot;
    cpu::LoadValue(layout_, values, slot, row.data());
    const bool partner = layout_.dtype == DType::kBF16 && slot == kSlot + 1;
    for (const float x : row) EXPECT_TRUE(partner ? x == 0.0F : std::isnan(x)) << slot;
  }
}

INSTANTIATE_TEST_SUITE_P(Grid, KvBlockTest,
                         ::testing::Combine(::testing::ValuesIn(kKvDTypes), ::testing::Values(1, 2, 9, 64, 80)));

TEST(KvBlockOrderTest, IsTheDocumentedOne) {
  const KvLayout bf16 = MakeKvLayout(DType::kBF16, {1, 1, 64});
  EXPECT_EQ(cpu::KeyIndex(bf16, 3, 7), size_t{(3 * 16 + 3) * 2 + 1});
  EXPECT_EQ(cpu::ValueIndex(bf16, 5, 7), size_t{(2 * 64 + 7) * 2 + 1});
  const KvLayout fp16 = MakeKvLayout(DType::kF16, {1, 1, 64});
  EXPECT_EQ(cpu::KeyIndex(fp16, 3, 7), size_t{7 * 16 + 3});
  EXPECT_EQ(cpu::ValueIndex(fp16, 3, 7), size_t{3 * 64 + 7});
  const KvLayout fp32 = MakeKvLayout(DType::kF32, {1, 1, 64});
  EXPECT_EQ(cpu::KeyIndex(fp32, 3, 7), size_t{7 * 8 + 3});
  EXPECT_EQ(bf16.page_bytes, fp32.page_bytes);
}

TEST(KvBlockOrderTest, E4M3PagesHoldTwiceTheTokensAndAScaleEach) {
  const KvShape shape = {.num_layers = 3, .num_kv_heads = 2, .head_dim = 9};
  const KvLayout fp8 = MakeKvLayout(DType::kF8E4M3, shape);
  const KvLayout bf16 = MakeKvLayout(DType::kBF16, shape, fp8.page_bytes);
  EXPECT_EQ(fp8.tokens_per_page, 32);
  EXPECT_EQ(fp8.key_block_bytes, size_t{10 * 32 + 32 * 4});
  EXPECT_EQ(cpu::KeyIndex(fp8, 3, 7), size_t{7 * 32 + 3});
  EXPECT_EQ(cpu::ValueIndex(fp8, 3, 7), size_t{3 * 9 + 7});
  EXPECT_EQ(cpu::Fp8ScaleOffset(9, 3), size_t{10 * 32 + 12});
  EXPECT_EQ(fp8.page_bytes, MakeKvLayout(DType::kBF16, shape).page_bytes + size_t{3 * 2 * 2 * 32 * 4});
  EXPECT_EQ(bf16.page_bytes, fp8.page_bytes);
  EXPECT_EQ(bf16.layer_bytes, MakeKvLayout(DType::kBF16, shape).layer_bytes);
}

// The largest magnitude of a row is kept to its last bit but one, and a row of zeros stays one.
TEST(KvBlockOrderTest, E4M3ScalesFollowTheTokenAlone) {
  const KvLayout layout = MakeKvLayout(DType::kF8E4M3, {1, 1, 3});
  PoisonedMemory pool(layout.page_bytes);
  std::byte* keys = cpu::KeyBlock(pool.data(), layout, 0, 0, 0);
  const float tiny[] = {1e-6F, -3e-6F, 0.0F};
  const float huge[] = {1e6F, -3e6F, 5.0F};
  const float zero[] = {0.0F, 0.0F, 0.0F};
  const float broken[] = {1.0F, NAN, 2.0F};
  cpu::StoreToken(layout, keys, 0, tiny, huge);
  cpu::StoreToken(layout, keys, 1, huge, tiny);
  cpu::StoreToken(layout, keys, 2, zero, broken);
  float row[3];
  cpu::LoadKey(layout, keys, 0, row);
  EXPECT_FLOAT_EQ(row[1], -3e-6F);
  cpu::LoadKey(layout, keys, 1, row);
  EXPECT_FLOAT_EQ(row[1], -3e6F);
  cpu::LoadKey(layout, keys, 2, row);
  for (const float x : row) EXPECT_EQ(x, 0.0F);
  cpu::LoadValue(layout, keys + layout.key_block_bytes, 2, row);
  for (const float x : row) EXPECT_TRUE(std::isnan(x));
}

TEST(KvBlockOrderTest, PaddingOfOddHeadDimsIsZero) {
  for (const int32_t head_dim : {1, 9}) {
    const KvLayout layout = MakeKvLayout(DType::kBF16, {1, 1, head_dim});
    PoisonedMemory pool(layout.page_bytes);
    std::byte* keys = cpu::KeyBlock(pool.data(), layout, 0, 0, 0);
    std::byte* values = keys + layout.key_block_bytes;
    const std::vector<float> token(static_cast<size_t>(head_dim), 1.0F);
    cpu::StoreToken(layout, keys, 5, token.data(), token.data());
    EXPECT_EQ(cpu::LoadKvElement(layout, keys, cpu::KeyIndex(layout, 5, head_dim)), 0.0F);
    EXPECT_EQ(cpu::LoadKvElement(layout, values, cpu::ValueIndex(layout, 5, head_dim)), 0.0F);
  }
}

}  // namespace
}  // namespace dunlin::kernels::testing

// SPDX-License-Identifier: Apache-2.0
// Pages in the device's layout: offsets, and the results of QK-norm, rotation and rounding, against the CPU device.
#include "kernels/cuda/ops/kv_store.h"

#include <gtest/gtest.h>

#include <cmath>
#include <set>

#include "kernels/api/device.h"
#include "kernels/cpu/attention/kv_block.h"
#include "tests/kernels/cuda/device/thread_lanes.h"
#include "tests/kernels/cuda/ops/host_matrix.h"

namespace dunlin::kernels::cuda {
namespace {

constexpr DType kKvDTypes[] = {DType::kF32, DType::kF16, DType::kBF16, DType::kF8E4M3};

TEST(KvPages, EverySlotHasItsOwnBytesInsideItsBlock) {
  for (const DType dtype : kKvDTypes) {
    for (const int32_t head_dim : {1, 7, 64, 96}) {
      const KvLayout layout = MakeKvLayout(dtype, {.num_layers = 2, .num_kv_heads = 3, .head_dim = head_dim});
      const auto element = static_cast<int64_t>(SizeOf(dtype));
      std::set<int64_t> taken;
      for (int32_t slot = 0; slot < layout.tokens_per_page; ++slot) {
        for (int32_t d = 0; d < PaddedHeadDim(head_dim); ++d) {
          for (int64_t byte = 0; byte < element; ++byte) {
            EXPECT_TRUE(taken.insert(KvElement(head_dim, slot, d) * element + byte).second);
          }
        }
        if (dtype != DType::kF8E4M3) continue;
        for (int64_t byte = 0; byte < 4; ++byte) {
          EXPECT_TRUE(taken.insert(KvScaleOffset(head_dim, layout.tokens_per_page, slot) + byte).second);
        }
        EXPECT_EQ(KvScaleOffset(head_dim, layout.tokens_per_page, slot) % 4, 0);
      }
      EXPECT_EQ(taken.size(), layout.key_block_bytes);
      EXPECT_EQ(*taken.rbegin() + 1, static_cast<int64_t>(layout.key_block_bytes));
    }
  }
}

TEST(KvPages, BlocksFollowEachOtherThroughThePool) {
  const KvLayout layout = MakeKvLayout(DType::kBF16, {.num_layers = 2, .num_kv_heads = 3, .head_dim = 64});
  int64_t expected = 0;
  for (int32_t page = 0; page < 2; ++page) {
    for (int32_t layer = 0; layer < 2; ++layer) {
      for (int32_t head = 0; head < 3; ++head) {
        EXPECT_EQ(KeyBlockOffset(layout, page, layer, head), expected);
        EXPECT_EQ(ValueBlockOffset(layout, page, layer, head), expected + 16 * 64 * 2);
        expected += 2 * 16 * 64 * 2;
      }
    }
  }
  EXPECT_EQ(KeyBlockOffset(layout, 100000, 0, 0), 100000 * (expected / 2)) << "beyond 2^31";
}

TEST(KvPages, RowsOfCommonHeadDimsAreAlignedTo16Bytes) {
  for (const DType dtype : kKvDTypes) {
    for (const int32_t head_dim : {64, 96, 128, 256}) {
      const KvLayout layout = MakeKvLayout(dtype, {.num_layers = 3, .num_kv_heads = 5, .head_dim = head_dim});
      for (int32_t slot = 0; slot < layout.tokens_per_page; ++slot) {
        EXPECT_EQ(KvElement(head_dim, slot, 0) * static_cast<int64_t>(SizeOf(dtype)) % 16, 0);
      }
      EXPECT_EQ(KeyBlockOffset(layout, 7, 2, 3) % 16, 0);
      EXPECT_EQ(ValueBlockOffset(layout, 7, 2, 3) % 16, 0);
    }
  }
}

struct Pool {
  explicit Pool(size_t bytes) : memory(bytes / 64 + 1) {}
  struct alignas(64) Line {
    unsigned char bytes[64];
  };
  std::vector<Line> memory;
  void* data() { return memory.data(); }
};

struct Case {
  DType dtype;
  int32_t head_dim;
  int32_t rotary_dim;  // 0: none
  bool norms;
  bool joint = false;  // over all heads of Q, and all of K
  bool value_norm = false;
  bool norms_after = false;
};

std::vector<Case> CasesOf(DType dtype) {
  return {{dtype, 64, 64, false},
          {dtype, 33, 20, true},
          {dtype, 48, 0, true},
          {dtype, 32, 32, true, true},
          {dtype, 40, 20, true, false, true},
          {dtype, 36, 20, true, false, false, true}};
}

void RunHeads(const RotateAndStoreKvParams& params) {
  for (int32_t token = 0; token < params.num_tokens; ++token) {
    for (const bool is_key : {false, true}) {
      if (!params.joint_norms) continue;
      RunLanes(token + 1, [&](const ThreadLanes& lanes) { NormHeadsJointly(lanes, params, token, is_key); });
    }
    for (int32_t head = 0; head < FusedHeads(params); ++head) {
      RunLanes(head % 3 + 1, [&](const ThreadLanes& lanes) { RotateAndStoreHead(lanes, params, token, head); });
    }
  }
}

// The precision whose elements are those of pages of a dtype.
Precision StoredAs(DType dtype) {
  if (dtype == DType::kF8E4M3) return Precision::kFp8;
  return dtype == DType::kF32 ? Precision::kFp32 : dtype == DType::kF16 ? Precision::kFp16 : Precision::kBf16;
}

// With which ranks normalise heads that they have gathered.
TEST(KvPages, JointNormsHaveTheBitsOfANormOfWholeRows) {
  constexpr int32_t kHeads = 5;
  constexpr int32_t kKvHeads = 2;
  for (const int32_t head_dim : {36, 100}) {
    const int32_t widths[] = {kHeads * head_dim, kKvHeads * head_dim};
    std::vector<float> qkv(static_cast<size_t>(kHeads + 2 * kKvHeads) * static_cast<size_t>(head_dim));
    std::vector<float> norm(static_cast<size_t>(widths[0]));
    for (size_t i = 0; i < qkv.size(); ++i) qkv[i] = std::sin(static_cast<float>(i));
    for (size_t i = 0; i < norm.size(); ++i) norm[i] = 1.0F + std::cos(static_cast<float>(i)) / 3.0F;
    RotateAndStoreKvParams params{};
    params.qkv = qkv.data();
    params.num_heads = kHeads;
    params.layout = MakeKvLayout(DType::kF32, {.num_layers = 1, .num_kv_heads = kKvHeads, .head_dim = head_dim});
    params.query_norm = params.key_norm = norm.data();
    params.norm_epsilon = 1e-6F;
    params.joint_norms = true;
    for (const bool is_key : {false, true}) {
      const int32_t width = widths[is_key ? 1 : 0];
      float* const heads = qkv.data() + (is_key ? widths[0] : 0);
      std::vector<float> rows(heads, heads + width);
      const NormSource source{.kind = NormKind::kRmsNorm,
                              .in = rows.data(),
                              .rows = nullptr,
                              .weight = norm.data(),
                              .bias = nullptr,
                              .residual = nullptr,
                              .epsilon = params.norm_epsilon,
                              .columns = width,
                              .vector = true};
      RowTarget target{};
      target.out.columns = width;
      target.rows_out = rows.data();
      RunLanes(7, [&](const ThreadLanes& lanes) { WritePlainRow(lanes, source, target, 0); });
      RunLanes(7, [&](const ThreadLanes& lanes) { NormHeadsJointly(lanes, params, 0, is_key); });
      EXPECT_EQ(std::vector<float>(heads, heads + width), rows) << head_dim << (is_key ? ", keys" : ", queries");
    }
  }
}

TEST(KvPages, StoredValuesMatchTheCpus) {
  std::string error;
  const auto cpu = OpenDevice(DeviceKind::kCpu, {1, "portable"}, &error);
  ASSERT_NE(cpu, nullptr) << error;
  constexpr int32_t kTokens = 5;
  constexpr int32_t kHeads = 4;
  constexpr int32_t kKvHeads = 2;
  const int32_t pages[kTokens] = {2, 2, 0, 0, 1};
  const int32_t slots[kTokens] = {0, 1, 6, 7, 3};
  const int32_t positions[kTokens] = {0, 1, 46, 47, 103};  // with norms queries take a factor by them
  for (const DType dtype : kKvDTypes) {
    for (const Case& test : CasesOf(dtype)) {
      const KvLayout layout =
          MakeKvLayout(dtype, {.num_layers = 2, .num_kv_heads = kKvHeads, .head_dim = test.head_dim});
      const std::vector<float> fused = RandomValues(int64_t{kTokens} * (kHeads + 2 * kKvHeads) * test.head_dim, 21);
      const std::vector<float> cos_sin = RandomValues(int64_t{kTokens} * test.rotary_dim + 1, 22);
      const std::vector<float> weights = RandomValues(kHeads * test.head_dim, 23);
      Pool expected(layout.page_bytes * 3);
      Pool stored(layout.page_bytes * 3);
      std::vector<float> cpu_rows = fused;
      std::vector<float> rows = fused;
      RotateAndStoreKvParams params{.qkv = cpu_rows.data(),
                                    .cos_sin = test.rotary_dim > 0 ? cos_sin.data() : nullptr,
                                    .rotary_dim = test.rotary_dim,
                                    .num_heads = kHeads,
                                    .kv_pool = expected.data(),
                                    .layout = layout,
                                    .layer = 1,
                                    .token_page = pages,
                                    .token_slot = slots,
                                    .num_tokens = kTokens,
                                    .query_norm = test.norms ? weights.data() : nullptr,
                                    .key_norm = test.norms ? weights.data() : nullptr,
                                    .norm_epsilon = 1e-6F,
                                    .joint_norms = test.joint,
                                    .norms_after = test.norms_after,
                                    .value_norm = test.value_norm,
                                    .query_scale = {test.norms ? positions : nullptr, 0.1F, 4, 1}};
      ASSERT_EQ(cpu->ops->rotate_and_store_kv(cpu->context, params), KernelStatus::kOk);
      params.qkv = rows.data();
      params.kv_pool = stored.data();
      RunHeads(params);
      for (int32_t token = 0; token < kTokens; ++token) {
        const float* queries = rows.data() + token * (kHeads + 2 * kKvHeads) * test.head_dim;
        const float* cpu_queries = cpu_rows.data() + (queries - rows.data());
        for (int32_t i = 0; i < kHeads * test.head_dim; ++i) ASSERT_NEAR(queries[i], cpu_queries[i], 3e-6F);
        for (int32_t head = 0; head < kKvHeads; ++head) {
          std::vector<float> key(static_cast<size_t>(test.head_dim));
          std::vector<float> value(key.size());
          const std::byte* block =
              cpu::KeyBlock(static_cast<const void*>(expected.data()), layout, pages[token], 1, head);
          cpu::LoadKey(layout, block, slots[token], key.data());
          cpu::LoadValue(layout, block + layout.key_block_bytes, slots[token], value.data());
          const auto* pool = static_cast<const unsigned char*>(stored.data());
          const auto at = [&](int64_t offset, int32_t d) {
            const float scale =
                dtype == DType::kF8E4M3
                    ? *reinterpret_cast<const float*>(pool + offset + KvScaleOffset(test.head_dim, 32, slots[token]))
                    : 1.0F;
            return PackedElement(StoredAs(dtype), pool + offset, KvElement(test.head_dim, slots[token], d)) * scale;
          };
          // What is normed may differ by one step of the format, because a norm's sum runs in another order.
          const float step = dtype == DType::kF32 ? 3e-6F : dtype == DType::kF8E4M3 ? 0.07F : 0.008F;
          for (int32_t d = 0; d < test.head_dim; ++d) {
            const float expected_key = key[static_cast<size_t>(d)];
            ASSERT_NEAR(at(KeyBlockOffset(layout, pages[token], 1, head), d), expected_key,
                        test.norms ? step * (1 + std::fabs(expected_key)) : 0.0F);
            const float expected_value = value[static_cast<size_t>(d)];
            ASSERT_NEAR(at(ValueBlockOffset(layout, pages[token], 1, head), d), expected_value,
                        test.value_norm ? step * (1 + std::fabs(expected_value)) : 0.0F);
          }
        }
      }
    }
  }
}

// Layers that read the keys of another have heads of Q alone; their tokens may be some of the step's.
TEST(KvPages, QueriesAloneTakeTheRotationOfTheirRow) {
  std::string error;
  const auto cpu = OpenDevice(DeviceKind::kCpu, {1, "portable"}, &error);
  ASSERT_NE(cpu, nullptr) << error;
  constexpr int32_t kTokens = 3;
  constexpr int32_t kHeads = 4;
  constexpr int32_t kDim = 20;
  const int32_t pages[kTokens] = {0, 0, 0};
  const int32_t slots[kTokens] = {1, 2, 3};
  const int32_t rows[kTokens] = {4, 0, 3};
  const int32_t positions[] = {9, 8, 7, 6, 105};
  const std::vector<float> queries = RandomValues(kTokens * kHeads * kDim, 31);
  const std::vector<float> cos_sin = RandomValues(5 * kDim, 32);
  const std::vector<float> norm = RandomValues(kHeads * kDim, 33);
  const KvLayout layout = MakeKvLayout(DType::kBF16, {.num_layers = 1, .num_kv_heads = 2, .head_dim = kDim});
  for (const bool joint : {false, true}) {
    Pool pool(layout.page_bytes);
    std::vector<float> expected = queries;
    std::vector<float> out = queries;
    RotateAndStoreKvParams params{.qkv = expected.data(),
                                  .cos_sin = cos_sin.data(),
                                  .rotary_dim = kDim,
                                  .num_heads = kHeads,
                                  .kv_pool = pool.data(),
                                  .layout = layout,
                                  .layer = 0,
                                  .token_page = pages,
                                  .token_slot = slots,
                                  .num_tokens = kTokens,
                                  .query_norm = norm.data(),
                                  .norm_epsilon = 1e-6F,
                                  .joint_norms = joint,
                                  .query_only = true,
                                  .rows = rows,
                                  .query_scale = {positions, 0.1F, 4}};
    ASSERT_EQ(cpu->ops->rotate_and_store_kv(cpu->context, params), KernelStatus::kOk);
    params.qkv = out.data();
    params.kv_pool = nullptr;  // not touched
    params.token_page = params.token_slot = nullptr;
    params.key_norm = norm.data();
    RunHeads(params);
    for (size_t i = 0; i < out.size(); ++i) ASSERT_NEAR(out[i], expected[i], 3e-6F) << i;
  }
}

}  // namespace
}  // namespace dunlin::kernels::cuda

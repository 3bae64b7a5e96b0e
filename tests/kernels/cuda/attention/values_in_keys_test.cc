// SPDX-License-Identifier: Apache-2.0
// Pages without value blocks (KvShape::values_in_keys) on the host: what is stored, and that every backend gives the
// bits that it gives over pages whose values repeat their keys.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <vector>

#include "kernels/cuda/attention/support.h"
#include "kernels/cuda/ops/kv_store.h"
#include "tests/kernels/attention/devices.h"
#include "tests/kernels/attention/paged_batch.h"
#include "tests/kernels/cuda/attention/host_attention.h"
#include "tests/kernels/cuda/ops/host_matrix.h"

namespace dunlin::kernels::testing {
namespace {

struct Dims {
  HeadShape shape;
  int32_t v_head_dim;
};
// Values at any dimension, and at a multiple of 16 bytes, which is copied asynchronously.
constexpr Dims kDims[] = {{{4, 1, 26}, 20},   {{6, 2, 9}, 7}, {{3, 1, 96}, 64},
                          {{2, 1, 320}, 256}, {{2, 2, 8}, 8}, {{2, 1, 256}, 192}};

constexpr cuda::DeviceShape kDevices[] = {{132, 163 * 1024, 80}, {132, 227 * 1024, 90}};

KvLayout WithoutValues(const KvLayout& layout, int32_t v_head_dim) {
  KvShape shape = layout.shape;
  shape.v_head_dim = v_head_dim;
  shape.values_in_keys = true;
  return MakeKvLayout(layout.dtype, shape);
}

// Calls visit(page, layer, KV head) for every block of `pages` pages.
template <typename Visit>
void ForBlocks(const KvShape& shape, int32_t pages, const Visit& visit) {
  for (int32_t page = 0; page < pages; ++page) {
    for (int32_t layer = 0; layer < shape.num_layers; ++layer) {
      for (int32_t head = 0; head < shape.num_kv_heads; ++head) visit(page, layer, head);
    }
  }
}

void ExpectSameBits(DType dtype, const Dims& dims, AttentionBackend backend, const cuda::DeviceShape& device) {
  const std::vector<BatchSequence> sequences = {{1, 256, 1}, {2, 530, 1}, {3, 0, 40}, {4, 130, 21}};
  PagedBatch batch(dtype, dims.shape, sequences, 1, kCudaPages);
  const HeadShape& shape = dims.shape;
  std::vector<float> expected(batch.out_floats(), NAN);
  PagedAttentionParams params = batch.Params(backend, expected.data());
  const KvLayout both = params.layout;
  const KvLayout keys = WithoutValues(both, dims.v_head_dim);
  ASSERT_LT(keys.page_bytes, both.page_bytes);
  const auto pages = static_cast<int32_t>(batch.pool_bytes() / both.page_bytes);
  PoisonedMemory repeated(batch.pool_bytes());
  PoisonedMemory alone(static_cast<size_t>(pages) * keys.page_bytes);
  ForBlocks(both.shape, pages, [&](int32_t page, int32_t layer, int32_t head) {
    const int64_t at = cuda::KeyBlockOffset(both, page, layer, head);
    const auto* block = static_cast<const std::byte*>(params.kv_pool) + at;
    std::memcpy(repeated.data() + at, block, both.key_block_bytes);
    std::memcpy(repeated.data() + at + both.key_block_bytes, block, both.key_block_bytes);
    std::memcpy(alone.data() + cuda::KeyBlockOffset(keys, page, layer, head), block, keys.key_block_bytes);
  });
  params.kv_pool = repeated.data();
  RunPagedOnHost(params, batch.Plan(), device);

  const int64_t rows = static_cast<int64_t>(expected.size()) / shape.head_dim;
  std::vector<float> out(static_cast<size_t>(rows * dims.v_head_dim), NAN);
  params.kv_pool = alone.data();
  params.layout = keys;
  params.out = out.data();
  RunPagedOnHost(params, batch.Plan(), device);
  for (int64_t row = 0; row < rows; ++row) {
    const float* last = expected.data() + (row + 1) * shape.head_dim - dims.v_head_dim;
    ASSERT_TRUE(std::equal(last, last + dims.v_head_dim, out.data() + row * dims.v_head_dim)) << "row " << row;
  }
}

TEST(CudaValuesInKeys, GiveTheBitsOfPagesThatRepeatTheKeys) {
  for (const AttentionBackend backend : kBackends) {
    for (const DType dtype : kDTypes) {
      for (const Dims& dims : kDims) {
        const AttentionTraits traits{.dtype = dtype,
                                     .head_dim = dims.shape.head_dim,
                                     .num_heads = dims.shape.num_heads,
                                     .num_kv_heads = dims.shape.num_kv_heads,
                                     .v_head_dim = dims.v_head_dim,
                                     .values_in_keys = true};
        for (const cuda::DeviceShape& device : kDevices) {
          if (!cuda::SupportsAttentionOn(device, backend, traits, nullptr)) continue;
          SCOPED_TRACE(std::string(Name(backend)) + " " + Name(dtype) + " " + std::to_string(dims.shape.head_dim) +
                       " on " + std::to_string(device.sm_version));
          ASSERT_NO_FATAL_FAILURE(ExpectSameBits(dtype, dims, backend, device));
        }
      }
    }
  }
}

// DeepSeek's rows of 576 with values of 512: by FLASH where these are whole tiles and a block has the memory.
TEST(CudaValuesInKeys, FlashTakesWideRowsWhoseValuesAreWholeTiles) {
  const auto takes = [](AttentionBackend backend, int32_t head_dim, int32_t v_head_dim, int32_t shared) {
    const AttentionTraits traits{.dtype = DType::kBF16,
                                 .head_dim = head_dim,
                                 .num_heads = 16,
                                 .num_kv_heads = 1,
                                 .v_head_dim = v_head_dim,
                                 .values_in_keys = v_head_dim != 0};
    return cuda::SupportsAttentionOn({132, shared, 90}, backend, traits, nullptr);
  };
  constexpr int32_t kShared = 163 * 1024;
  EXPECT_TRUE(takes(AttentionBackend::kFlash, 576, 512, kShared));
  EXPECT_FALSE(takes(AttentionBackend::kFlash, 576, 512, 99 * 1024));
  EXPECT_FALSE(takes(AttentionBackend::kFlash, 576, 510, kShared));
  EXPECT_TRUE(takes(AttentionBackend::kFlash, 512, 510, kShared));
  EXPECT_FALSE(takes(AttentionBackend::kFlash, 640, 512, kShared));
  EXPECT_TRUE(takes(AttentionBackend::kFlash, 512, 0, kShared));
  EXPECT_FALSE(takes(AttentionBackend::kFlash, 576, 0, kShared));
  EXPECT_TRUE(takes(AttentionBackend::kEfficient, 576, 0, 99 * 1024));
}

// Rows of Q and K heads alone fill the key blocks that rows of Q, K and V heads fill.
TEST(CudaValuesInKeys, StoresKeysOfRowsWithoutValues) {
  constexpr int32_t kHeads = 4;
  constexpr int32_t kKvHeads = 2;
  constexpr int32_t kDim = 20;
  constexpr int32_t kTokens = 3;
  const KvLayout both = MakeKvLayout(DType::kBF16, {.num_layers = 2, .num_kv_heads = kKvHeads, .head_dim = kDim});
  const KvLayout layouts[] = {both, WithoutValues(both, 16)};
  const std::vector<float> values = cuda::RandomValues(kTokens * (kHeads + 2 * kKvHeads) * kDim, 3);
  const std::vector<float> norm = cuda::RandomValues(kDim * kHeads, 4);
  const int32_t pages[kTokens] = {1, 1, 0};
  const int32_t slots[kTokens] = {0, 1, 15};
  std::vector<std::vector<std::byte>> pools;
  for (const KvLayout& layout : layouts) {
    for (const bool joint : {false, true}) {
      std::vector<float> rows;
      const int32_t heads = kHeads + (layout.shape.values_in_keys ? 1 : 2) * kKvHeads;
      for (int32_t token = 0; token < kTokens; ++token) {
        const auto first = values.begin() + token * (kHeads + 2 * kKvHeads) * kDim;
        rows.insert(rows.end(), first, first + heads * kDim);
      }
      std::vector<std::byte>& pool = pools.emplace_back(2 * layout.page_bytes);
      const RotateAndStoreKvParams params{.qkv = rows.data(),
                                          .cos_sin = nullptr,
                                          .rotary_dim = 0,
                                          .num_heads = kHeads,
                                          .kv_pool = pool.data(),
                                          .layout = layout,
                                          .layer = 1,
                                          .token_page = pages,
                                          .token_slot = slots,
                                          .num_tokens = kTokens,
                                          .query_norm = norm.data(),
                                          .key_norm = norm.data(),
                                          .norm_epsilon = 1e-6F,
                                          .joint_norms = joint};
      ASSERT_EQ(cuda::FusedHeads(params), heads);
      for (int32_t token = 0; token < kTokens; ++token) {
        for (const bool key : {false, true}) {
          if (joint) cuda::NormHeadsJointly(cuda::SingleLane(), params, token, key);
        }
        for (int32_t head = 0; head < heads; ++head) {
          cuda::RotateAndStoreHead(cuda::SingleLane(), params, token, head);
        }
      }
    }
  }
  for (const size_t joint : {0U, 1U}) {
    ForBlocks(both.shape, 2, [&](int32_t page, int32_t layer, int32_t head) {
      const std::byte* of_both = pools[joint].data() + cuda::KeyBlockOffset(layouts[0], page, layer, head);
      const std::byte* of_keys = pools[2 + joint].data() + cuda::KeyBlockOffset(layouts[1], page, layer, head);
      EXPECT_EQ(std::memcmp(of_both, of_keys, both.key_block_bytes), 0) << page << ", " << layer << ", " << head;
    });
    EXPECT_TRUE(
        std::any_of(pools[2 + joint].begin(), pools[2 + joint].end(), [](std::byte b) { return b != std::byte{0}; }));
  }
}

TEST(CudaValuesInKeys, BlocksOfColumnsAreCopied) {
  const std::vector<float> in = cuda::RandomValues(2 * 20, 5);
  std::vector<float> out(2 * 14, -1.0F);
  // Rows of 20: blocks of 3 columns at 0, 7 and 14, to 1, 6 and 11 of rows of 14.
  const CopyColumnsParams params{in.data(), 20, 7, out.data() + 1, 14, 5, 2, 3, 3};
  std::vector<float> expected = out;
  for (int64_t row = 0; row < 2; ++row) {
    for (int64_t i = 0; i < 9; ++i) {
      cuda::CopyColumnAt(params, row, i);
      expected[static_cast<size_t>(row * 14 + 1 + i / 3 * 5 + i % 3)] =
          in[static_cast<size_t>(row * 20 + i / 3 * 7 + i % 3)];
    }
  }
  EXPECT_EQ(out, expected);
}

}  // namespace
}  // namespace dunlin::kernels::testing

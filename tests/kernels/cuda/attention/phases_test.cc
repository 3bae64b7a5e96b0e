// SPDX-License-Identifier: Apache-2.0
// A row has the same bits in prefill and in decode (DeviceOps::prefill_matches_decode) on compute capability 9.0, by
// every kernel that a backend may choose there: ragged chunks against tokens that decode one by one, by GQA, windows,
// sinks, soft caps, ALiBi and wide heads.
#include <gtest/gtest.h>

#include <cstring>

#include "tests/kernels/cuda/attention/host_attention.h"

namespace dunlin::kernels::testing {
namespace {

struct PhaseCase {
  const char* name;
  AttentionBackend backend;
  DType dtype;
  HeadShape shape;
  int32_t window = 0;
  float softcap = 0.0F;
  bool sinks = false;
  bool alibi = false;
};
constexpr PhaseCase kPhaseCases[] = {
    {"Grouped", AttentionBackend::kFlash, DType::kBF16, {8, 2, 64}},
    {"OneHeadEach", AttentionBackend::kFlash, DType::kF16, {2, 2, 128}, 0, 0.0F, true},
    {"ManyHeads", AttentionBackend::kFlash, DType::kBF16, {80, 1, 32}},
    {"Windows", AttentionBackend::kFlash, DType::kBF16, {4, 2, 64}, 100, 0.0F, true},
    {"LongWindows", AttentionBackend::kFlash, DType::kF16, {4, 1, 96}, 700},
    {"SoftCaps", AttentionBackend::kFlash, DType::kBF16, {4, 2, 64}, 0, 5.0F},
    {"Slopes", AttentionBackend::kFlash, DType::kF16, {4, 2, 48}, 90, 0.0F, true, true},
    {"Codes", AttentionBackend::kFlash, DType::kF8E4M3, {4, 2, 64}, 0, 0.0F, true},
    {"Dims256", AttentionBackend::kFlash, DType::kBF16, {2, 1, 256}},
    {"Dims512", AttentionBackend::kFlash, DType::kBF16, {2, 1, 512}},
    {"Latent", AttentionBackend::kFlash, DType::kBF16, {3, 1, 576, 512}},
    {"LatentOfManyHeads", AttentionBackend::kFlash, DType::kF16, {70, 1, 320, 256}},
    {"Efficient", AttentionBackend::kEfficient, DType::kBF16, {4, 2, 64}, 300, 5.0F, true},
    {"EfficientFp32", AttentionBackend::kEfficient, DType::kF32, {2, 1, 72}},
    {"Math", AttentionBackend::kMath, DType::kF32, {2, 1, 64}, 200, 0.0F, true},
};

class AttentionPhases : public ::testing::TestWithParam<PhaseCase> {
 protected:
  std::vector<float> Run(const std::vector<BatchSequence>& sequences, uint64_t layout_seed) const {
    const PhaseCase& c = GetParam();
    const AttentionRunner& hopper = Hopper();
    PagedBatch batch(c.dtype, c.shape, sequences, layout_seed, hopper.pages());
    if (c.shape.v_head_dim != 0) batch.scale = 0.1F;
    batch.window = c.window;
    batch.softcap = c.softcap;
    for (int32_t head = 0; head < c.shape.num_heads; ++head) {
      if (c.sinks) batch.sinks.push_back(0.5F - static_cast<float>(head));
      if (c.alibi) batch.alibi_slopes.push_back(1.0F / static_cast<float>(2 + head));
    }
    return hopper.Paged(batch, c.backend, Division::kAsPlanned);
  }
};

TEST_P(AttentionPhases, RowsOfAChunkHaveTheBitsOfDecodedOnes) {
  const std::vector<BatchSequence> chunks = {{1, 0, 3}, {2, 60, 9}, {3, 509, 6}, {4, 1019, 10}};
  const auto row = static_cast<size_t>(GetParam().shape.num_heads * GetParam().shape.out_dim());
  const std::vector<float> prefill = Run(chunks, 1);
  for (int32_t token = 0; token < 10; ++token) {
    std::vector<BatchSequence> decoding;
    std::vector<size_t> expected;  // rows of `prefill`
    size_t first = 0;
    for (const BatchSequence& chunk : chunks) {
      if (token < chunk.query_len) {
        decoding.push_back({chunk.seed, chunk.first_position + token, 1});
        expected.push_back(first + static_cast<size_t>(token));
      }
      first += static_cast<size_t>(chunk.query_len);
    }
    const std::vector<float> decode = Run(decoding, static_cast<uint64_t>(token) + 2);
    for (size_t i = 0; i < expected.size(); ++i) {
      EXPECT_EQ(std::memcmp(decode.data() + i * row, prefill.data() + expected[i] * row, row * sizeof(float)), 0)
          << "sequence " << decoding[i].seed << ", token " << token;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Hopper, AttentionPhases, ::testing::ValuesIn(kPhaseCases),
                         [](const auto& test) { return std::string(test.param.name); });

}  // namespace
}  // namespace dunlin::kernels::testing

// SPDX-License-Identifier: Apache-2.0
// FLASH and EFFICIENT by wgmma on the host's machine beyond the conformance tests: which calls their rows take, the
// bits of a row across splits of 1,024 or 256 keys, phases and batches, codes, and the check of an opened device.
#include "kernels/cuda/attention/flash/sm90/wgmma_flash.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

#include "kernels/cuda/attention/check_problem.h"
#include "tests/kernels/cuda/attention/exact_pages.h"
#include "tests/kernels/cuda/attention/host_attention.h"

namespace dunlin::kernels::cuda {
namespace {

using testing::BatchSequence;
using testing::HeadShape;
using testing::Hopper;
using testing::PagedBatch;

constexpr DeviceShape kWgmmaDevice{132, 227 * 1024, 90};
constexpr AttentionBackend kWgmmaBackends[] = {AttentionBackend::kFlash, AttentionBackend::kEfficient};

// The row that a paged call goes to.
const AttentionKernel& RowOfCall(const PagedBatch& batch, const DeviceShape& device, AttentionBackend backend,
                                 AttentionPhase phase, float* out) {
  const PagedAttentionParams params = batch.Params(backend, out);
  const AttentionCall call = CallOf(params);
  return *FindKernel(AttentionKernels(), device, backend, phase, TraitsOf(params), &call);
}

TEST(WgmmaFlash, TakesWhatItSaysAndLeavesTheRestToGeneralRows) {
  alignas(16) float out[4];
  const auto takes = [&out](const PagedBatch& batch, const DeviceShape& device = kWgmmaDevice) {
    int taken = 0;
    for (const AttentionBackend backend : kWgmmaBackends) {
      for (const AttentionPhase phase : kAttentionPhases) {
        const AttentionKernel& row = RowOfCall(batch, device, backend, phase, out);
        if (row.takes != TakesWgmmaFlash) continue;
        ++taken;
        EXPECT_EQ(row.geometry.rows, phase == AttentionPhase::kDecode ? 64 : 128);
      }
    }
    EXPECT_TRUE(taken == 0 || taken == 4) << "backends and phases differ";
    return taken != 0;
  };
  const auto batch_of = [](DType dtype, HeadShape shape) {
    return PagedBatch(dtype, shape, {{1, 0, 5}}, 1, testing::kCudaPages);
  };
  for (const DType dtype : {DType::kBF16, DType::kF16, DType::kF8E4M3}) {
    for (const int32_t head_dim : {32, 64, 80, 96, 128, 192, 256})
      EXPECT_TRUE(takes(batch_of(dtype, {4, 2, head_dim})));
    for (const int32_t head_dim : {20, 65, 130, 260}) EXPECT_FALSE(takes(batch_of(dtype, {4, 2, head_dim})));
  }
  for (const int32_t head_dim : {72, 136}) {
    EXPECT_TRUE(takes(batch_of(DType::kBF16, {4, 2, head_dim})));
    EXPECT_FALSE(takes(batch_of(DType::kF8E4M3, {4, 2, head_dim}))) << "codes that are no whole pieces";
  }
  PagedBatch batch = batch_of(DType::kBF16, {4, 2, 64});
  for (const int32_t sm : {80, 89, 100, 120}) EXPECT_FALSE(takes(batch, {132, 227 * 1024, sm})) << sm;
  batch.window = 7;
  batch.sinks = {1.0F, 2.0F, 3.0F, 4.0F};
  EXPECT_TRUE(takes(batch));
  batch.softcap = 3.0F;
  EXPECT_FALSE(takes(batch));
  batch.softcap = 0.0F;
  batch.alibi_slopes = {1.0F, 0.5F, 0.25F, 0.125F};
  EXPECT_FALSE(takes(batch));
  // Boxes of fewer keys than the swizzle's eight rows.
  AttentionCall call = CallOf(batch_of(DType::kBF16, {4, 2, 64}).Params(AttentionBackend::kFlash, out));
  EXPECT_TRUE(TakesWgmmaFlash(call));
  call.page_shift = 2;
  EXPECT_FALSE(TakesWgmmaFlash(call));
}

// The workspace suffices for the special rows, and for the general ones behind them.
TEST(WgmmaFlash, AWorkspaceServesEveryRowThatMayTakeACallOfThePlan) {
  const PagedAttentionPlan plan{.traits = {.dtype = DType::kBF16, .head_dim = 128, .num_heads = 32, .num_kv_heads = 8},
                                .max_query_tokens = 16,
                                .max_kv_tokens = 40000};
  for (const AttentionBackend backend : kWgmmaBackends) {
    const size_t bytes = PagedWorkspaceBytes(kWgmmaDevice, backend, plan);
    int rows = 0;
    for (const AttentionKernel& row : AttentionKernels()) {
      if (row.backend != backend || (row.dtypes & Bit(DType::kBF16)) == 0) continue;
      if (row.limits.max_head_dim != 128 && row.limits.max_head_dim != kAnyHeadDim) continue;
      EXPECT_LE(row.plan.paged_workspace(row.geometry, plan, kWgmmaDevice), bytes);
      ++rows;
    }
    EXPECT_EQ(rows, 5);
  }
}

constexpr uint64_t kSeed = 42;
constexpr int32_t kLength = 1310;  // of two splits, and no multiple of anything

class WgmmaFlashBits : public ::testing::TestWithParam<std::tuple<AttentionBackend, std::pair<DType, HeadShape>>> {
 protected:
  PagedBatch Batch(std::vector<BatchSequence> sequences, uint64_t layout_seed = 1) const {
    PagedBatch batch(std::get<1>(GetParam()).first, shape(), std::move(sequences), layout_seed, testing::kCudaPages);
    batch.window = window_;
    return batch;
  }
  std::vector<float> Run(const PagedBatch& batch, testing::Division division = testing::Division::kAsPlanned) const {
    return Hopper().Paged(batch, backend(), division);
  }
  AttentionBackend backend() const { return std::get<0>(GetParam()); }
  const HeadShape& shape() const { return std::get<1>(GetParam()).second; }
  size_t row_floats() const { return static_cast<size_t>(shape().num_heads * shape().out_dim()); }
  // Rows [first, ..) of `whole`, whose first is row `begin` of the sequence, against `rows`.
  bool Same(const std::vector<float>& whole, int32_t begin, int32_t first, const float* rows, size_t count) const {
    const float* expected = whole.data() + static_cast<size_t>(first - begin) * row_floats();
    return std::memcmp(expected, rows, count * row_floats() * sizeof(float)) == 0;
  }
  int32_t window_ = 0;
};

TEST_P(WgmmaFlashBits, ARowIsTheSameInDecodeInAnyChunkAndBesideAnyNeighbours) {
  constexpr int32_t kBegin = 900;
  for (const int32_t window : {0, 700}) {
    window_ = window;
    const std::vector<float> whole = Run(Batch({{kSeed, kBegin, kLength - kBegin}}));
    for (const float value : whole) ASSERT_TRUE(std::isfinite(value));
    for (const int32_t first : {900, 1022, 1023, 1024, 1025, 1151, 1152, 1280, 1309}) {
      const PagedBatch alone = Batch({{kSeed, first, 1}}, 7);
      EXPECT_TRUE(Same(whole, kBegin, first, Run(alone).data(), 1)) << first << ", window " << window;
      EXPECT_TRUE(Same(whole, kBegin, first, Run(alone, testing::Division::kWhole).data(), 1))
          << first << " by one block";
    }
    for (const auto& [first, count] : {std::pair{1000, 75}, {1023, 2}, {1290, 20}}) {
      const PagedBatch chunk = Batch({{kSeed, first, count}}, 9);
      EXPECT_TRUE(Same(whole, kBegin, first, Run(chunk).data(), static_cast<size_t>(count))) << first << " + " << count;
      const PagedBatch crowd = Batch({{8, 0, 30}, {kSeed, first, count}, {9, 1200, 1}}, 5);
      EXPECT_TRUE(Same(whole, kBegin, first, Run(crowd).data() + 30 * row_floats(), static_cast<size_t>(count)))
          << first << " + " << count << " in a crowd";
    }
  }
}

// Sequences of one token beside each other: short ones have fewer parts than the launch.
TEST_P(WgmmaFlashBits, DecodingSequencesOfAnyLengthShareALaunch) {
  const std::vector<int32_t> positions = {0, 1, 127, 128, 1023, 1024, 1309, 2050};
  std::vector<BatchSequence> sequences;
  for (const int32_t position : positions) sequences.push_back({kSeed, position, 1});
  const std::vector<float> together = Run(Batch(sequences));
  for (size_t i = 0; i < positions.size(); ++i) {
    const std::vector<float> alone = Run(Batch({sequences[i]}, 3));
    EXPECT_EQ(std::memcmp(together.data() + i * row_floats(), alone.data(), row_floats() * sizeof(float)), 0)
        << positions[i];
  }
}

constexpr std::pair<DType, HeadShape> kBitShapes[] = {{DType::kBF16, {4, 1, 128}},   {DType::kF8E4M3, {4, 1, 128}},
                                                      {DType::kBF16, {2, 1, 256}},   {DType::kBF16, {3, 1, 576, 512}},
                                                      {DType::kBF16, {2, 2, 64}},    {DType::kF16, {2, 1, 96}},
                                                      {DType::kF8E4M3, {2, 2, 48}},  {DType::kF16, {3, 1, 136}},
                                                      {DType::kF8E4M3, {2, 1, 208}}, {DType::kF16, {2, 1, 264}}};
constexpr size_t kEfficientShapes = 4;  // the kernels are FLASH's

std::vector<std::tuple<AttentionBackend, std::pair<DType, HeadShape>>> BitCases() {
  std::vector<std::tuple<AttentionBackend, std::pair<DType, HeadShape>>> cases;
  for (const auto& shape : kBitShapes) cases.emplace_back(AttentionBackend::kFlash, shape);
  for (size_t i = 0; i < kEfficientShapes; ++i) cases.emplace_back(AttentionBackend::kEfficient, kBitShapes[i]);
  return cases;
}

INSTANTIATE_TEST_SUITE_P(Shapes, WgmmaFlashBits, ::testing::ValuesIn(BitCases()), [](const auto& run) {
  const auto& shape = std::get<1>(run.param);
  return std::string(Name(std::get<0>(run.param))) + "_" + Name(shape.first) + "_" +
         std::to_string(shape.second.head_dim);
});

// Both backends are the same kernels: their splits tell them apart, from the second chunk of EFFICIENT on.
TEST(WgmmaFlash, BackendsDifferInWhereTheyMerge) {
  for (const HeadShape& shape : {HeadShape{2, 1, 128}, {2, 1, 256}, {2, 1, 512}, {2, 1, 576, 512}}) {
    constexpr int32_t kBegin = 200;
    const PagedBatch batch(DType::kBF16, shape, {{kSeed, kBegin, 100}}, 1, testing::kCudaPages);
    const std::vector<float> flash = Hopper().Paged(batch, AttentionBackend::kFlash, testing::Division::kAsPlanned);
    const std::vector<float> efficient =
        Hopper().Paged(batch, AttentionBackend::kEfficient, testing::Division::kAsPlanned);
    const auto floats = static_cast<ptrdiff_t>(shape.num_heads * shape.out_dim());
    const ptrdiff_t one_chunk = (kWgmmaChunkKeys - kBegin) * floats;  // of the rows that see no more
    EXPECT_TRUE(std::equal(flash.begin(), flash.begin() + one_chunk, efficient.begin())) << shape.head_dim;
    EXPECT_FALSE(std::equal(flash.begin() + one_chunk, flash.end(), efficient.begin() + one_chunk)) << shape.head_dim;
  }
}

// Codes are widened, not rounded: with scales of 1 every bit is that of BF16 pages with the same values, in prefill and
// decode, over splits and tails.
TEST(WgmmaFlash, CodesGiveTheBitsOfTheirValuesInBf16) {
  for (const int32_t head_dim : {64, 80, 128, 144, 256, 336, 512}) {
    const HeadShape shape{4, 2, head_dim};
    for (const BatchSequence& sequence : {BatchSequence{kSeed, 1000, 70}, {kSeed, 1309, 1}, {kSeed, 0, 33}}) {
      const PagedBatch codes(DType::kF8E4M3, shape, {sequence}, 1, testing::kExactPages);
      const PagedBatch values(DType::kBF16, shape, {sequence}, 2, testing::kExactPages);
      EXPECT_EQ(Hopper().Paged(codes, AttentionBackend::kFlash, testing::Division::kAsPlanned),
                Hopper().Paged(values, AttentionBackend::kFlash, testing::Division::kAsPlanned))
          << head_dim << " from " << sequence.first_position;
    }
  }
}

// A NaN among the codes of a tile that some rows see only in part is NaN for the rows that see it, and nothing for the
// others, as in BF16.
TEST(WgmmaFlash, CodesThatAreNotFiniteReachTheRowsThatSeeThem) {
  constexpr int32_t kDim = 5;
  const testing::PageFormat exact = {[](const KvLayout& layout, std::byte* pool, int32_t page, int32_t layer,
                                        int32_t kv_head, int32_t slot, const float* key, const float* value) {
                                       std::vector<float> poisoned(value, value + layout.shape.head_dim);
                                       if (poisoned[kDim] > 0.98F) poisoned[kDim] = NAN;
                                       testing::StoreExact(layout, pool, page, layer, kv_head, slot, key,
                                                           poisoned.data());
                                     },
                                     nullptr};
  const HeadShape shape{2, 2, 64};
  const PagedBatch codes(DType::kF8E4M3, shape, {{kSeed, 0, 300}}, 1, exact);
  const PagedBatch values(DType::kBF16, shape, {{kSeed, 0, 300}}, 2, exact);
  const std::vector<float> of_codes = Hopper().Paged(codes, AttentionBackend::kFlash, testing::Division::kAsPlanned);
  const std::vector<float> of_values = Hopper().Paged(values, AttentionBackend::kFlash, testing::Division::kAsPlanned);
  size_t rows = 0;
  for (size_t i = 0; i < of_codes.size(); ++i) {
    if (std::isnan(of_values[i])) {
      EXPECT_TRUE(std::isnan(of_codes[i]) && i % 64 == kDim) << i;
      ++rows;
    } else {
      ASSERT_EQ(of_codes[i], of_values[i]) << i;
    }
  }
  EXPECT_GT(rows, 0U);
  EXPECT_LT(rows, of_codes.size() / 64);
}

// What is compared when a device is opened: by its own rows, by general ones, and in both phases.
TEST(WgmmaFlash, PassesTheCheckOfAnOpenedDevice) {
  DeviceShape general = kWgmmaDevice;
  general.left_out_attention = CheckedAttention(kWgmmaDevice);
  EXPECT_EQ(general.left_out_attention, (uint64_t{1} << 46) - 1);
  std::vector<unsigned char> workspace(size_t{8} << 20);
  for (const AttentionKernel& kernel : AttentionKernels()) {
    if (kernel.check_bit == 0) continue;
    const bool decode = kernel.phases == Bit(AttentionPhase::kDecode);
    const AttentionPhase phase = decode ? AttentionPhase::kDecode : AttentionPhase::kPrefill;
    const AttentionCheck check(kernel);
    // The general rows of EFFICIENT compute the scores of 512 dims eight times.
    if (kernel.backend == AttentionBackend::kEfficient && check.head_dim == 512 && check.dtype != DType::kBF16)
      continue;
    const std::vector<CheckedScores> all_scores = check.ScoresOf(kernel);
    EXPECT_EQ(all_scores.size(), kernel.takes == TakesWgmmaAdjusted ? 2U : 1U);
    for (const CheckedScores scores : all_scores) {
      std::vector<float> outs[3];  // by the general row, by its own, and by the general one without what adjusts scores
      for (std::vector<float>& out : outs) {
        if (&out == &outs[2] && !decode) break;  // few rows show it
        out.assign(check.out_floats(decode), NAN);
        AttentionCall call = check.Call({check.pool.data(), check.page_table.data(), check.spans.data(),
                                         check.query.data(), check.slopes.data(), out.data()},
                                        decode, scores);
        if (&out == &outs[2]) {
          call.softcap = 0.0F;
          call.alibi_slopes = nullptr;
        }
        const AttentionKernel& behind =
            *FindKernel(AttentionKernels(), general, kernel.backend, phase, check.traits(), &call);
        EXPECT_EQ(behind.check_bit, 0U);
        LaunchRow(&out == &outs[1] ? kernel : behind, call, kWgmmaDevice, workspace.data(), workspace.size(), nullptr);
      }
      EXPECT_TRUE(OutputsAgree(outs[0], outs[1]))
          << Name(kernel.backend) << " " << Name(check.dtype) << " " << check.head_dim;
      EXPECT_EQ(OutputsAgree(outs[0], outs[2]), decode && scores == CheckedScores::kPlain) << "adjusted scores show";
      outs[1].back() += 0x1p-6F;
      EXPECT_FALSE(OutputsAgree(outs[0], outs[1])) << "a difference shows";
      outs[1].back() = NAN;
      EXPECT_FALSE(OutputsAgree(outs[0], outs[1])) << "an element that was left out shows";
    }
  }
}

TEST(WgmmaFlash, KeysAreDividedIntoSplitsWhereOneBlockHasAllRows) {
  alignas(16) static unsigned char workspace[16];
  const auto parts_of = [](int32_t sequences, int32_t tokens, int32_t keys,
                           AttentionBackend backend = AttentionBackend::kFlash) {
    AttentionCall call{};
    call.num_sequences = sequences;
    call.num_kv_heads = 8;
    call.group = 4;
    call.values.dim = 128;
    call.max_query_tokens = tokens;
    call.max_kv_tokens = keys;
    const AttentionPhase phase = tokens == 1 ? AttentionPhase::kDecode : AttentionPhase::kPrefill;
    const AttentionTraits traits{.dtype = DType::kBF16, .head_dim = 128, .num_heads = 32, .num_kv_heads = 8};
    const AttentionKernel& row = *FindKernel(AttentionKernels(), kWgmmaDevice, backend, phase, traits);
    LaunchPlan plan;
    EXPECT_TRUE(row.plan.divide(row.geometry, call, kWgmmaDevice, workspace, size_t{64} << 20, &plan));
    return plan.parts.data == nullptr ? 0 : plan.parts.num_parts;
  };
  EXPECT_EQ(parts_of(1, 1, 8192), 8);
  EXPECT_EQ(parts_of(32, 1, 4096), 4);
  EXPECT_EQ(parts_of(33, 1, 8192), 0) << "264 tasks fill the device";
  EXPECT_EQ(parts_of(1, 1, 1024), 0) << "one split";
  EXPECT_EQ(parts_of(1, 32, 8192), 8) << "128 packed rows";
  EXPECT_EQ(parts_of(1, 33, 8192), 0) << "two blocks of rows";
  EXPECT_EQ(parts_of(1, 1, 8192, AttentionBackend::kEfficient), 32);
  EXPECT_EQ(parts_of(1, 1, 256, AttentionBackend::kEfficient), 0) << "one split";
}

// Blocks with the most keys come first, over all sequences; every place has one block.
TEST(WgmmaFlash, LongestBlocksComeFirst) {
  WgmmaFlashCall flash{};
  flash.call.num_sequences = 3;
  flash.call.num_kv_heads = 2;
  flash.row_blocks = 4;
  for (int32_t index = 0; index < 24; ++index) {
    const BlockPlace place = WgmmaFlashPlaceOf(flash, index);
    EXPECT_EQ(place.row_block, 3 - index / 6);
    EXPECT_EQ(place.sequence * 2 + place.kv_head, index % 6);
    EXPECT_EQ(place.part, 0);
  }
}

}  // namespace
}  // namespace dunlin::kernels::cuda

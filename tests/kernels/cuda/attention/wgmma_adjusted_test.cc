// SPDX-License-Identifier: Apache-2.0
// FLASH and EFFICIENT by wgmma whose scores have soft caps, ALiBi or both, on the host's machine: which calls its rows
// take, a capped exponent and whole launches against FP64, and the bits of a row across splits, phases, chunks and
// neighbours.
#include <gtest/gtest.h>

#include <array>
#include <bit>
#include <cmath>
#include <cstring>

#include "kernels/cuda/attention/flash/sm90/wgmma_flash.h"
#include "kernels/cuda/attention/flash/sm90/wgmma_flash_scores.h"
#include "tests/kernels/attention/paged_error.h"
#include "tests/kernels/cuda/attention/exact_pages.h"
#include "tests/kernels/cuda/attention/host_attention.h"

namespace dunlin::kernels::cuda {
namespace {

using testing::BatchSequence;
using testing::HeadShape;
using testing::PagedBatch;

constexpr DeviceShape kAdjustingDevice{132, 227 * 1024, 90};
constexpr AttentionBackend kAdjustingBackends[] = {AttentionBackend::kFlash, AttentionBackend::kEfficient};

// --- A capped exponent. Functions off by as many units in the last place of their results as a device's may be.
template <int kPowerUlp, int kReciprocalUlp>
struct InexactFunctions {
  static float Off(double exact, int ulp) {
    const auto value = static_cast<float>(exact);
    if (!std::isfinite(value) || value == 0.0F) return value;
    return static_cast<float>(exact + ulp * (std::nextafter(value, INFINITY) - double{value}));
  }
  static float PowerOf2(float x) { return Off(std::exp2(double{x}), kPowerUlp); }
  static float Reciprocal(float x) { return Off(1.0 / double{x}, kReciprocalUlp); }
};

AttentionCall CappedCall(float softcap, float scale) {
  AttentionCall call{};
  call.softcap = softcap;
  call.scale = scale;
  call.keys.dtype = DType::kBF16;
  return call;
}

template <typename Functions>
double LargestErrorOfCap(float softcap, float scale) {
  const WgmmaFlashCall flash = WgmmaFlashCallOf(CappedCall(softcap, scale), LaunchPlan{}, 64);
  constexpr double kLog2E64 = 1.4426950408889634;
  double largest = 0.0;
  // Every 9,973rd product of either sign, from the smallest to the largest.
  for (uint32_t bits = 0; bits < 0x7F800000U; bits += 9973) {
    for (const uint32_t sign : {0U, 1U << 31}) {
      const auto product = std::bit_cast<float>(bits | sign);
      const double score = double{product} * double{scale};
      const double exact = double{softcap} * kLog2E64 * std::tanh(score / double{softcap});
      const double exponent = CappedExponent<Functions>(flash.cap, flash.cap_factor, product);
      const double error = std::fabs(exponent - exact) / (double{softcap} * kLog2E64);
      largest = std::isnan(error) ? INFINITY : std::max(largest, error);
    }
  }
  return largest;
}

TEST(WgmmaAdjusted, ACappedExponentStaysWithinItsBound) {
  for (const float softcap : {1e-3F, 0.7F, 20.0F, 30.0F, 50.0F, kWgmmaSoftcapMax}) {
    for (const float scale : {1.0F, 0.0625F, 0.1F}) {
      for (const double error : {LargestErrorOfCap<SpecialFunctions>(softcap, scale),
                                 LargestErrorOfCap<InexactFunctions<2, 1>>(softcap, scale),
                                 LargestErrorOfCap<InexactFunctions<-2, -1>>(softcap, scale),
                                 LargestErrorOfCap<InexactFunctions<2, -1>>(softcap, scale),
                                 LargestErrorOfCap<InexactFunctions<-2, 1>>(softcap, scale)}) {
        EXPECT_LE(error, 0x1p-20) << softcap << " at a scale of " << scale;
      }
    }
  }
  // Of the largest cap an exponent is within 2^-12: a weight, 2^-12.5 of it, is rounded to 11 bits at most.
  EXPECT_LE(double{kWgmmaSoftcapMax} * 1.4427 * 0x1p-20, 0x1p-12);
}

TEST(WgmmaAdjusted, ACappedExponentTakesTheEnds) {
  const WgmmaFlashCall flash = WgmmaFlashCallOf(CappedCall(50.0F, 0.0625F), LaunchPlan{}, 64);
  EXPECT_EQ(CappedExponent(flash.cap, flash.cap_factor, INFINITY), flash.cap);
  EXPECT_EQ(CappedExponent(flash.cap, flash.cap_factor, -INFINITY), -flash.cap);
  EXPECT_EQ(CappedExponent(flash.cap, flash.cap_factor, 0.0F), 0.0F);
  EXPECT_TRUE(std::isnan(CappedExponent(flash.cap, flash.cap_factor, NAN)));
  // A cap so small that its factor is no number: every score but 0 is at it.
  const WgmmaFlashCall tiny = WgmmaFlashCallOf(CappedCall(1e-40F, 1.0F), LaunchPlan{}, 64);
  EXPECT_EQ(CappedExponent(tiny.cap, tiny.cap_factor, 0.0F), 0.0F);
  EXPECT_EQ(CappedExponent(tiny.cap, tiny.cap_factor, 1.0F), tiny.cap);
  EXPECT_EQ(WgmmaFlashCallOf(CappedCall(0.0F, 1.0F), LaunchPlan{}, 64).cap, 0.0F) << "no cap";
}

// --- Calls. What adjusts the scores of a batch of up to four heads.
struct Adjusting {
  const char* name;
  float softcap;
  bool slopes = false;
  bool sinks = false;
  int32_t window = 0;
  float scale = 0.5F;
};
// Gemma 2's cap with scores that reach it, in layers with and without windows; ALiBi; both; sinks, which count a
// constant of ALiBi that the weights do not.
constexpr Adjusting kAdjustings[] = {{"cap", 50.0F, false, false, 0, 6.0F},
                                     {"capped window", 2.0F, false, true, 300},
                                     {"slopes", 0.0F, true, false},
                                     {"sloped window", 0.0F, true, true, 700},
                                     {"both", 3.0F, true, true}};

void Adjust(const Adjusting& by, const HeadShape& shape, PagedBatch* batch) {
  batch->softcap = by.softcap;
  batch->window = by.window;
  batch->scale = by.scale;
  for (int32_t head = 0; head < shape.num_heads; ++head) {
    if (by.slopes) batch->alibi_slopes.push_back(0.5F / static_cast<float>(1 << 2 * head));
    if (by.sinks) batch->sinks.push_back(0.5F - static_cast<float>(head));
  }
}

TEST(WgmmaAdjusted, TakesSoftCapsAndSlopesAndNothingElse) {
  alignas(16) float out[4];
  const auto takes = [&out](DType dtype, const HeadShape& shape, auto&& change, int32_t sm = 90) {
    PagedBatch batch(dtype, shape, {{1, 0, 5}}, 1, testing::kCudaPages);
    change(&batch);
    const PagedAttentionParams params = batch.Params(AttentionBackend::kFlash, out);
    const AttentionCall call = CallOf(params);
    int taken = 0;
    for (const AttentionBackend backend : kAdjustingBackends) {
      for (const AttentionPhase phase : kAttentionPhases) {
        const AttentionKernel& row =
            *FindKernel(AttentionKernels(), {132, 227 * 1024, sm}, backend, phase, TraitsOf(params), &call);
        if (row.takes != TakesWgmmaAdjusted) continue;
        ++taken;
        EXPECT_EQ(row.geometry.rows, phase == AttentionPhase::kDecode ? 64 : 128);
        EXPECT_EQ(row.limits.max_head_dim, std::bit_ceil(static_cast<uint32_t>(std::max(shape.head_dim, 64))));
      }
    }
    EXPECT_TRUE(taken == 0 || taken == 4) << "backends and phases differ";
    return taken != 0;
  };
  for (const DType dtype : {DType::kBF16, DType::kF16, DType::kF8E4M3}) {
    for (const Adjusting& by : kAdjustings) {
      const auto adjust = [&by](PagedBatch* batch) { Adjust(by, {4, 2, 64}, batch); };
      for (const int32_t dim : {32, 64, 96, 128, 192, 256}) EXPECT_TRUE(takes(dtype, {4, 2, dim}, adjust)) << by.name;
      for (const int32_t dim : {20, 65, 264}) EXPECT_FALSE(takes(dtype, {4, 2, dim}, adjust)) << by.name;
      for (const int32_t sm : {80, 89, 100, 120}) EXPECT_FALSE(takes(dtype, {4, 2, 64}, adjust, sm)) << sm;
    }
  }
  const auto of_cap = [](float softcap) { return [softcap](PagedBatch* batch) { batch->softcap = softcap; }; };
  EXPECT_FALSE(takes(DType::kBF16, {4, 2, 64}, of_cap(0.0F)));
  EXPECT_TRUE(takes(DType::kBF16, {4, 2, 64}, of_cap(kWgmmaSoftcapMax)));
  EXPECT_FALSE(takes(DType::kBF16, {4, 2, 64}, of_cap(std::nextafter(kWgmmaSoftcapMax, INFINITY))));
  EXPECT_FALSE(takes(DType::kBF16, {16, 1, 576, 512}, of_cap(1.0F)));
  AttentionCall call = CallOf(
      PagedBatch(DType::kBF16, {4, 2, 64}, {{1, 0, 5}}, 1, testing::kCudaPages).Params(AttentionBackend::kFlash, out));
  call.softcap = 1.0F;
  EXPECT_TRUE(TakesWgmmaAdjusted(call));
  AttentionCall biased = call;
  biased.bias.data = out;
  EXPECT_FALSE(TakesWgmmaAdjusted(biased));
  AttentionCall masked = call;
  masked.mask.data = reinterpret_cast<const uint8_t*>(out);
  EXPECT_FALSE(TakesWgmmaAdjusted(masked));
  AttentionCall chosen = call;
  chosen.selection.bits = reinterpret_cast<const uint32_t*>(out);
  EXPECT_FALSE(TakesWgmmaAdjusted(chosen));
}

constexpr uint64_t kAdjustedSeed = 42;
constexpr int32_t kAdjustedLength = 1310;  // of two splits, and no multiple of anything

struct AdjustedShape {
  DType dtype;
  HeadShape shape;
  AttentionBackend backend = AttentionBackend::kFlash;
};

class WgmmaAdjustedRows : public ::testing::TestWithParam<AdjustedShape> {
 protected:
  PagedBatch Batch(const Adjusting& by, std::vector<BatchSequence> sequences, uint64_t layout_seed = 1) const {
    PagedBatch batch(GetParam().dtype, shape(), std::move(sequences), layout_seed, testing::kCudaPages);
    Adjust(by, shape(), &batch);
    return batch;
  }
  std::vector<float> Run(const PagedBatch& batch, testing::Division division = testing::Division::kAsPlanned) const {
    return testing::Hopper().Paged(batch, GetParam().backend, division);
  }
  const HeadShape& shape() const { return GetParam().shape; }
  size_t row_floats() const { return static_cast<size_t>(shape().num_heads * shape().head_dim); }
};

TEST_P(WgmmaAdjustedRows, StayWithinTwiceTheUnfusedError) {
  const DType rounding = GetParam().dtype == DType::kF8E4M3 ? DType::kBF16 : GetParam().dtype;
  const std::vector<BatchSequence> ragged = {{1, 1000, 40}, {2, 0, 33}, {3, 1309, 1}};
  const std::vector<BatchSequence> decoding = {{3, 1309, 1}, {4, 5, 1}};
  for (const Adjusting& by : kAdjustings) {
    for (const auto& sequences : {ragged, decoding}) {
      const PagedBatch batch = Batch(by, sequences);
      const testing::ErrorBound bound = testing::PagedError(batch, shape(), sequences, rounding, Run(batch));
      EXPECT_TRUE(bound.holds()) << by.name << ": " << bound.actual() << ", limit " << bound.limit();
    }
  }
}

TEST_P(WgmmaAdjustedRows, AreTheSameInDecodeInAnyChunkAndBesideAnyNeighbours) {
  constexpr int32_t kBegin = 1000;
  for (const Adjusting& by : kAdjustings) {
    const std::vector<float> whole = Run(Batch(by, {{kAdjustedSeed, kBegin, kAdjustedLength - kBegin}}));
    for (const float value : whole) ASSERT_TRUE(std::isfinite(value));
    const auto same = [&](int32_t first, const std::vector<float>& rows, size_t skipped, int32_t count) {
      const float* expected = whole.data() + static_cast<size_t>(first - kBegin) * row_floats();
      return std::memcmp(expected, rows.data() + skipped * row_floats(),
                         static_cast<size_t>(count) * row_floats() * sizeof(float)) == 0;
    };
    for (const int32_t first : {1000, 1023, 1024, 1151, 1309}) {
      const PagedBatch alone = Batch(by, {{kAdjustedSeed, first, 1}}, 7);
      EXPECT_TRUE(same(first, Run(alone), 0, 1)) << by.name << ", " << first;
      EXPECT_TRUE(same(first, Run(alone, testing::Division::kWhole), 0, 1)) << by.name << ", " << first << " whole";
    }
    const PagedBatch crowd = Batch(by, {{8, 0, 30}, {kAdjustedSeed, 1020, 70}, {9, 1200, 1}}, 5);
    EXPECT_TRUE(same(1020, Run(crowd), 30, 70)) << by.name << ", in a crowd";
  }
}

// The kernels of EFFICIENT are FLASH's.
constexpr AdjustedShape kAdjustedShapes[] = {{DType::kBF16, {4, 2, 128}},
                                             {DType::kBF16, {2, 2, 64}},
                                             {DType::kF16, {2, 1, 96}},
                                             {DType::kF16, {1, 1, 64}},
                                             {DType::kF8E4M3, {4, 1, 128}},
                                             {DType::kF8E4M3, {2, 2, 48}},
                                             {DType::kBF16, {2, 1, 256}},
                                             {DType::kF16, {3, 1, 136}},
                                             {DType::kF8E4M3, {2, 1, 208}},
                                             {DType::kBF16, {4, 2, 128}, AttentionBackend::kEfficient},
                                             {DType::kF8E4M3, {2, 1, 256}, AttentionBackend::kEfficient}};

INSTANTIATE_TEST_SUITE_P(Shapes, WgmmaAdjustedRows, ::testing::ValuesIn(kAdjustedShapes), [](const auto& test) {
  return std::string(Name(test.param.backend)) + "_" + Name(test.param.dtype) + "_" +
         std::to_string(test.param.shape.head_dim);
});

// With scales of 1 every bit is that of BF16 pages with the same values.
TEST(WgmmaAdjusted, CodesGiveTheBitsOfTheirValuesInBf16) {
  for (const int32_t head_dim : {64, 80, 128, 256}) {
    const HeadShape shape{4, 2, head_dim};
    for (const Adjusting& by : kAdjustings) {
      for (const BatchSequence& sequence : {BatchSequence{kAdjustedSeed, 1000, 40}, {kAdjustedSeed, 1309, 1}}) {
        PagedBatch codes(DType::kF8E4M3, shape, {sequence}, 1, testing::kExactPages);
        PagedBatch values(DType::kBF16, shape, {sequence}, 2, testing::kExactPages);
        Adjust(by, shape, &codes);
        Adjust(by, shape, &values);
        EXPECT_EQ(testing::Hopper().Paged(codes, AttentionBackend::kFlash, testing::Division::kAsPlanned),
                  testing::Hopper().Paged(values, AttentionBackend::kFlash, testing::Division::kAsPlanned))
            << head_dim << ", " << by.name << " from " << sequence.first_position;
      }
    }
  }
}

// What a row does not see leaves no trace in it, though it is adjusted before it is left out; its own NaN shows.
TEST(WgmmaAdjusted, WhatARowDoesNotSeeLeavesNoTrace) {
  const HeadShape shape{3, 1, 64};
  for (const Adjusting& by : {kAdjustings[0], kAdjustings[2], kAdjustings[4]}) {
    const auto run = [&](int32_t poison_from) {
      PagedBatch batch(DType::kBF16, shape, {{7, 0, 150, poison_from}}, 1, testing::kCudaPages);
      Adjust(by, shape, &batch);
      return testing::Hopper().Paged(batch, AttentionBackend::kFlash, testing::Division::kAsPlanned);
    };
    const std::vector<float> clean = run(INT32_MAX);
    for (const int32_t poison_from : {1, 97, 149}) {
      const std::vector<float> poisoned = run(poison_from);
      const size_t seen = static_cast<size_t>(poison_from) * 3 * 64;
      EXPECT_EQ(std::memcmp(clean.data(), poisoned.data(), seen * sizeof(float)), 0) << by.name << ", " << poison_from;
      EXPECT_TRUE(std::isnan(poisoned[seen])) << by.name;
    }
  }
}

// Blocks that take one task after another find each one's slopes.
TEST(WgmmaAdjusted, BlocksThatTakeSeveralTasksGiveTheSameBits) {
  for (const DType dtype : {DType::kBF16, DType::kF8E4M3}) {
    const HeadShape shape{4, 2, 256};
    PagedBatch batch(dtype, shape, {{3, 0, 2}, {42, 1000, 70}, {4, 2040, 20}}, 3, testing::kCudaPages);
    Adjust(kAdjustings[4], shape, &batch);
    const std::vector<float> expected =
        testing::Hopper().Paged(batch, AttentionBackend::kFlash, testing::Division::kAsPlanned);
    for (const int32_t multiprocessors : {1, 3}) {
      std::vector<float> out(batch.out_floats(), NAN);
      testing::RunPagedOnHost(batch.Params(AttentionBackend::kFlash, out.data()), batch.Plan(),
                              {multiprocessors, 227 * 1024, 90});
      EXPECT_EQ(out, expected) << Name(dtype) << ", " << multiprocessors << " blocks";
    }
  }
}

// Dense tensors: more and fewer keys than queries, either alignment, no mask, a scale below 0.
TEST(WgmmaAdjusted, DenseCallsStayWithinTwiceTheUnfusedError) {
  using testing::DenseShape;
  const DenseShape plain{
      .dtype = DType::kBF16, .batch = 2, .num_kv_heads = 1, .group = 3, .q_len = 70, .kv_len = 300, .head_dim = 64};
  std::array<DenseShape, 5> shapes;
  shapes.fill(plain);
  shapes[0].softcap = 2.0F;
  shapes[1].alibi = true;
  shapes[2].softcap = 1.5F;
  shapes[2].alibi = shapes[2].causal = true;
  shapes[2].alignment = CausalAlignment::kBottomRight;
  shapes[3].dtype = DType::kF16;
  shapes[3].softcap = 1.0F;
  shapes[3].scale = -0.25F;
  shapes[3].head_dim = 256;
  shapes[4].alibi = shapes[4].causal = true;
  shapes[4].window = 40;
  shapes[4].head_dim = 96;
  for (const DenseShape& shape : shapes) {
    const testing::DenseProblem problem(shape);
    EXPECT_TRUE(TakesWgmmaAdjusted(CallOf(problem.Params(AttentionBackend::kFlash, nullptr))));
    const std::vector<float> out = testing::Hopper().Dense(problem, AttentionBackend::kFlash);
    testing::ErrorBound bound;
    for (int32_t row = 0; row < shape.batch * shape.num_heads() * shape.q_len; ++row) {
      const int32_t token = row % shape.q_len;
      const int32_t head = row / shape.q_len % shape.num_heads();
      const int32_t batch = row / shape.q_len / shape.num_heads();
      const testing::ReferenceRow reference = problem.Row(batch, head, token);
      bound.Add(ExactRow(reference), UnfusedRow(reference, shape.dtype),
                out.data() + problem.OutputStart(batch, head, token));
    }
    EXPECT_TRUE(bound.holds()) << bound.actual() << ", limit " << bound.limit() << ", " << shape.head_dim;
  }
}

// A row that fails its check, of adjusted scores or plain ones, leaves its calls to the general row, not to one of more
// dims or other scores.
TEST(WgmmaAdjusted, WhatIsLeftOutGoesToTheGeneralRow) {
  alignas(16) float out[4];
  for (const int32_t head_dim : {64, 128, 256}) {
    PagedBatch batch(DType::kBF16, {4, 2, head_dim}, {{1, 0, 5}}, 1, testing::kCudaPages);
    for (const float softcap : {0.0F, 1.0F}) {
      batch.softcap = softcap;
      const PagedAttentionParams params = batch.Params(AttentionBackend::kFlash, out);
      const AttentionCall call = CallOf(params);
      for (const AttentionPhase phase : kAttentionPhases) {
        const auto row = [&](const DeviceShape& device) {
          return FindKernel(AttentionKernels(), device, AttentionBackend::kFlash, phase, TraitsOf(params), &call);
        };
        DeviceShape device = kAdjustingDevice;
        const AttentionKernel* own = row(device);
        EXPECT_EQ(own->takes, softcap > 0.0F ? TakesWgmmaAdjusted : TakesWgmmaFlash);
        device.left_out_attention = own->check_bit;
        EXPECT_EQ(row(device)->check_bit, 0U);
        device.left_out_attention = ~own->check_bit;
        EXPECT_EQ(row(device), own) << "whose bit is its own";
      }
    }
  }
}

}  // namespace
}  // namespace dunlin::kernels::cuda

// SPDX-License-Identifier: Apache-2.0
// The device's truncation of a row on the host: the tokens that it keeps against the CPU's radix selection, the number
// of passes over the row, and that neither the number of lanes nor the order of their additions is in the result.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <memory>

#include "kernels/cpu/sampling/truncation.h"
#include "kernels/cuda/sampling/sample_row.h"
#include "tests/kernels/cuda/device/thread_lanes.h"
#include "tests/kernels/sampling/random_logits.h"

namespace dunlin::kernels::cuda {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr int32_t kGpt2Vocab = 50257;
constexpr int32_t kLlamaVocab = 128256;

struct CountingLane : SingleLane {
  int* passes;
  void BeginPass() const { ++*passes; }
};

struct Options {
  float temperature = 1.0F;
  int32_t top_k = 0;
  float top_p = 1.0F;
  float min_p = 0.0F;
};

// The end of a row's prefix and what it took to find it.
struct Found {
  TokenCut cut;
  int passes = 0;
};

template <typename Lanes>
KeptWeights Search(const Lanes& lanes, const std::vector<float>& logits, const Options& options, SampleShared* shared) {
  const auto vocab_size = static_cast<int32_t>(logits.size());
  const RowTop top = FindTop(lanes, logits.data(), vocab_size);
  const float max = logits[static_cast<size_t>(top.id)];
  CutSearch<Lanes> search{lanes,
                          {logits.data(), max, options.temperature, options.min_p},
                          vocab_size,
                          WeightBins::Of(max, top.lowest, options.temperature),
                          shared};
  search.Truncate(options.top_k, options.top_p);
  return search.weights;
}

// Shared memory is as an earlier block left it.
std::unique_ptr<SampleShared> UsedMemory() {
  auto shared = std::make_unique<SampleShared>();
  std::memset(shared.get(), 0x5A, sizeof(SampleShared));
  return shared;
}

Found FindOnOneLane(const std::vector<float>& logits, const Options& options) {
  const auto shared = UsedMemory();
  Found found;
  CountingLane lane;
  lane.passes = &found.passes;
  found.cut = Search(lane, logits, options, shared.get()).cut;
  found.passes -= 1;  // of FindTop
  return found;
}

TokenCut FindOnLanes(int32_t lanes, const std::vector<float>& logits, const Options& options) {
  const auto shared = UsedMemory();
  TokenCut cut;
  RunLanes(lanes, [&](const ThreadLanes& each) {
    const TokenCut found = Search(each, logits, options, shared.get()).cut;
    if (each.index() == 0) cut = found;
  });
  return cut;
}

// Exactly the tokens that the CPU keeps. Returns the passes.
int ExpectCpusCut(const std::vector<float>& logits, const Options& options) {
  SCOPED_TRACE("T " + std::to_string(options.temperature) + " k " + std::to_string(options.top_k) + " p " +
               std::to_string(options.top_p) + " min_p " + std::to_string(options.min_p));
  const auto vocab_size = static_cast<int32_t>(logits.size());
  float max = -kInfinity;
  for (const float x : logits) max = x > max ? x : max;
  std::vector<float> expected(logits.size());
  for (size_t i = 0; i < logits.size(); ++i) expected[i] = ExpNonPositive((logits[i] - max) / options.temperature);
  std::vector<double> workspace(cpu::Truncation::WorkspaceBytes(vocab_size) / sizeof(double) + 1);
  SampleRow row;
  row.top_k = options.top_k;
  row.top_p = options.top_p;
  row.min_p = options.min_p;
  cpu::Truncation(vocab_size, reinterpret_cast<std::byte*>(workspace.data()))
      .Apply(row, logits.data(), max, vocab_size, expected.data());
  const Found found = FindOnOneLane(logits, options);
  const KeptWeights weights{logits.data(), max, options.temperature, options.min_p, found.cut};
  int32_t wrong = 0;
  for (int32_t id = 0; id < vocab_size; ++id) wrong += weights(id) != expected[static_cast<size_t>(id)] ? 1 : 0;
  EXPECT_EQ(wrong, 0) << "of " << vocab_size;
  return found.passes;
}

std::vector<Options> EveryKindOfOptions() {
  std::vector<Options> all;
  for (const int32_t top_k : {0, 1, 50, 2000}) {
    for (const float top_p : {1.0F, 0.95F, 0.37F, 1e-6F}) {
      for (const float min_p : {0.0F, 0.02F}) all.push_back({1.0F, top_k, top_p, min_p});
    }
  }
  return all;
}

// Logits of a language model: most far below a few.
std::vector<float> ModelLogits(int32_t vocab_size, uint32_t seed) {
  std::vector<float> logits = RandomLogits(vocab_size, 2.5F, seed);
  for (int32_t i = 0; i < 40; ++i) {
    logits[static_cast<size_t>((i * 7919 + static_cast<int32_t>(seed)) % vocab_size)] =
        18.0F - 0.21F * static_cast<float>(i);
  }
  return logits;
}

TEST(CudaTokenCut, KeepsTheCpusTokensOfWholeVocabularies) {
  uint32_t seed = 0;
  for (const int32_t vocab_size : {kGpt2Vocab, kLlamaVocab}) {
    for (Options options : EveryKindOfOptions()) {
      options.temperature = ++seed % 3 == 0 ? 0.6F : seed % 3 == 1 ? 1.0F : 1.7F;
      ExpectCpusCut(seed % 2 == 0 ? ModelLogits(vocab_size, seed) : RandomLogits(vocab_size, 3.0F, seed), options);
    }
  }
}

// What a row is read for: two passes for either cut and three for both, whatever the temperature.
TEST(CudaTokenCut, ReadsARowTwiceForACutAndThreeTimesForBoth) {
  for (const float temperature : {0.3F, 1.0F, 2.0F}) {
    const std::vector<float> logits = ModelLogits(kLlamaVocab, 7);
    EXPECT_EQ(ExpectCpusCut(logits, {temperature, 0, 1.0F, 0.0F}), 0);
    EXPECT_EQ(ExpectCpusCut(logits, {temperature, 0, 1.0F, 0.1F}), 0);
    EXPECT_EQ(ExpectCpusCut(logits, {temperature, 50, 1.0F, 0.0F}), 2);
    EXPECT_EQ(ExpectCpusCut(logits, {temperature, 0, 0.95F, 0.02F}), 2);
    EXPECT_EQ(ExpectCpusCut(logits, {temperature, 50, 0.95F, 0.0F}), 3);
    EXPECT_EQ(ExpectCpusCut(logits, {temperature, 50000, 0.95F, 0.0F}), 3);
    // top_k keeps every token with a weight: one pass finds that out.
    EXPECT_EQ(ExpectCpusCut(logits, {temperature, kLlamaVocab - 1, 0.95F, 0.5F}), 3);
  }
}

// A cut through the densest part of the row, where bins are fullest.
TEST(CudaTokenCut, ReadsARowTwiceForACutAmongItsMostFrequentLogits) {
  const std::vector<float> logits = RandomLogits(kLlamaVocab, 2.5F, 3);
  EXPECT_EQ(ExpectCpusCut(logits, {1.0F, kLlamaVocab / 2, 1.0F, 0.0F}), 2);
  EXPECT_EQ(ExpectCpusCut(logits, {50.0F, 0, 0.5F, 0.0F}), 2);
}

// All in one bin: it is divided by rank, and the lower ids of equals stay.
TEST(CudaTokenCut, DividesABinOfEqualLogits) {
  for (const int32_t vocab_size : {1, 2, 512, 513, kLlamaVocab}) {
    const std::vector<float> logits(static_cast<size_t>(vocab_size), -1.25F);
    for (const Options& options : EveryKindOfOptions()) EXPECT_LE(ExpectCpusCut(logits, options), 7);
  }
  const std::vector<float> equal(kLlamaVocab, 3.0F);
  const Found found = FindOnOneLane(equal, {1.0F, 1000, 1.0F, 0.0F});
  EXPECT_EQ(found.cut.last_id, 999);
  EXPECT_EQ(found.passes, 4);
}

TEST(CudaTokenCut, DividesABinOfNearlyEqualLogits) {
  // One far below, so that the bins are wide; the others are neighbouring floats, 37 ids each.
  std::vector<float> logits(kGpt2Vocab);
  for (size_t i = 0; i < logits.size(); ++i) {
    logits[i] = std::bit_cast<float>(0x40A00000U + static_cast<uint32_t>(i * 7919 % kGpt2Vocab / 37));
  }
  logits[4] = -40.0F;
  for (const Options& options : EveryKindOfOptions()) EXPECT_LE(ExpectCpusCut(logits, options), 9);
  // Around zero, floats of one bin have every exponent and both signs.
  for (size_t i = 0; i < logits.size(); ++i) {
    logits[i] = std::ldexp(i % 2 == 0 ? 1.0F : -1.0F, -10 - static_cast<int>(i % 139));
  }
  logits[4] = -60.0F;
  for (const Options& options : EveryKindOfOptions()) EXPECT_LE(ExpectCpusCut(logits, options), 21);
}

TEST(CudaTokenCut, CutsAmongTiesOfAWholeVocabulary) {
  std::vector<float> logits = RandomLogits(kLlamaVocab, 1.5F, 11);
  for (float& x : logits) x = std::round(x);  // including -0
  for (const Options& options : EveryKindOfOptions()) EXPECT_LE(ExpectCpusCut(logits, options), 7);
}

TEST(CudaTokenCut, LeavesOutWhatCannotBeDrawn) {
  std::vector<float> logits = ModelLogits(kGpt2Vocab, 5);
  for (size_t i = 0; i < logits.size(); i += 3) logits[i] = -kInfinity;
  for (size_t i = 1; i < logits.size(); i += 3) logits[i] = -3e38F;
  for (const Options& options : EveryKindOfOptions()) ExpectCpusCut(logits, options);
  std::vector<float> one(kGpt2Vocab, -kInfinity);
  one[777] = -12.0F;
  for (const Options& options : EveryKindOfOptions()) ExpectCpusCut(one, options);
}

TEST(CudaTokenCut, TakesAnyTemperatureAndAnyRange) {
  for (const float scale : {1e-30F, 1e-3F, 1.0F, 1e4F, 1e38F}) {
    std::vector<float> logits = RandomLogits(3000, 1.0F, 9);
    for (float& x : logits) x = std::fmax(-3.0F, std::fmin(3.0F, x)) * scale;
    for (const float temperature : {1e-6F, 0.02F, 1.0F, 1e5F}) {
      for (Options options : EveryKindOfOptions()) {
        options.temperature = temperature;
        ExpectCpusCut(logits, options);
      }
    }
  }
}

TEST(CudaTokenCut, DoesNotDependOnLanes) {
  for (const Options& options : {Options{1.0F, 50, 1.0F, 0.0F}, Options{1.0F, 0, 0.95F, 0.02F},
                                 Options{0.7F, 2000, 0.37F, 0.0F}, Options{1.3F, 2000, 0.95F, 0.02F}}) {
    for (const std::vector<float>& logits : {ModelLogits(5000, 1), std::vector<float>(5000, 1.0F)}) {
      const TokenCut one = FindOnOneLane(logits, options).cut;
      const TokenCut many = FindOnLanes(5, logits, options);
      EXPECT_EQ(many.key, one.key);
      EXPECT_EQ(many.last_id, one.last_id);
    }
  }
}

// The unit of a bin divides each of its weights, so that sums are exact; later bins have smaller logits.
TEST(CudaWeightBins, HoldWeightsExactlyAndInOrder) {
  for (const float range : {0.0F, 1e-30F, 0.5F, 20.0F, 87.3F, 500.0F}) {
    for (const float temperature : {0.1F, 1.0F, 3.0F}) {
      const float max = 7.25F;
      const WeightBins bins = WeightBins::Of(max, max - range, temperature);
      int32_t previous = 0;
      for (int32_t i = 0; i <= 40000; ++i) {
        const float exponent = (max - range * static_cast<float>(i) / 40000.0F - max) / temperature;
        const float weight = ExpNonPositive(exponent);
        const int32_t bin = bins.BinOf(exponent);
        ASSERT_GE(bin, previous);
        ASSERT_LT(bin, kBins);
        previous = bin;
        if (!(weight > 0.0F)) continue;
        const uint32_t units = bins.UnitsOf(weight, bin);
        ASSERT_LT(units, 1U << 26);
        ASSERT_EQ(static_cast<double>(units) * bins.UnitOf(bin), static_cast<double>(weight)) << exponent;
      }
    }
  }
}

}  // namespace
}  // namespace dunlin::kernels::cuda

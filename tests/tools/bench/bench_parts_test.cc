// SPDX-License-Identifier: Apache-2.0
// The parts of the benches: options, inputs that are exact in every format, samples, bounds, timing.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <set>
#include <string>
#include <vector>

#include "kernels/api/float_formats.h"
#include "tools/bench/attention_reference.h"
#include "tools/bench/model_work.h"
#include "tools/bench/options.h"
#include "tools/bench/proof.h"
#include "tools/bench/random_values.h"
#include "tools/bench/record.h"
#include "tools/bench/timing.h"

namespace dunlin::tools::bench {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(BenchOptions, RejectsBadNumbersNamingTheOption) {
  EXPECT_THAT(*ParseNumbers("--shape", "4,32,64", 3, 100), ElementsAre(4, 32, 64));
  EXPECT_TRUE(ParseNumbers("--shape", "", 3, 100)->empty());
  for (const char* text : {"4,32", "4,32,64,1", "4,32,101", "4,0,1", "4,-1,1", "a,1,1", "4,,1", "1.5,1,1"}) {
    const auto numbers = ParseNumbers("--shape", text, 3, 100);
    ASSERT_FALSE(numbers.ok()) << text;
    EXPECT_THAT(std::string(numbers.status().message()), HasSubstr("--shape"));
  }
}

TEST(BenchOptions, RejectsUnknownNamesNamingTheOption) {
  EXPECT_EQ(ParsePrecisions("all", {})->size(), size_t{kernels::kNumPrecisions});
  EXPECT_THAT(*ParsePrecisions("fp8,bf16", {}), ElementsAre(kernels::Precision::kFp8, kernels::Precision::kBf16));
  EXPECT_THAT(*ParsePrecisions("", {kernels::Precision::kFp16}), ElementsAre(kernels::Precision::kFp16));
  EXPECT_THAT(std::string(ParsePrecisions("int3", {}).status().message()), HasSubstr("\"int3\"; known are fp32"));
  EXPECT_EQ(ParseBackends("all")->size(), 3U);
  // A model without FLASH, as one with latent attention, is measured in what it has.
  EXPECT_THAT(ParseModelAxes({}, {1}, 8)->backends, ElementsAre(std::nullopt));
  EXPECT_THAT(std::string(ParseBackends("triton").status().message()), HasSubstr("--backend is \"triton\""));
}

TEST(BenchInputs, RowsAreExactInEveryFormat) {
  constexpr size_t kRow = 96;
  std::vector<float> rows(20 * kRow);
  FillRows(StreamOf(7, 0), kRow, rows);
  std::set<float> distinct(rows.begin(), rows.end());
  EXPECT_GT(distinct.size(), 60U);
  for (const float value : rows) {
    EXPECT_EQ(kernels::Bf16ToFloat(kernels::FloatToBf16(value)), value);
    EXPECT_EQ(kernels::Fp16ToFloat(kernels::FloatToFp16(value)), value);
    EXPECT_EQ(kernels::E4M3ToFloat(kernels::FloatToE4M3(value / kCodeUnit)) * kCodeUnit, value);
    EXPECT_LE(std::abs(value), kernels::kE4M3Max * kCodeUnit);
  }
  for (size_t i = 0; i < rows.size(); i += kRow) EXPECT_EQ(std::abs(rows[i]), kernels::kE4M3Max * kCodeUnit);
}

TEST(BenchInputs, StreamsAreReproducibleAndDistinct) {
  std::vector<float> a(64);
  std::vector<float> b(64);
  std::vector<float> c(64);
  FillUniform(StreamOf(1, 0), a);
  FillUniform(StreamOf(1, 0), b);
  FillUniform(StreamOf(1, 1), c);
  EXPECT_EQ(a, b);
  EXPECT_NE(a, c);
  for (const float value : a) {
    EXPECT_GE(value, 0.0F);
    EXPECT_LT(value, 1.0F);
  }
}

TEST(BenchProof, Sha256MatchesTheStandard) {
  const std::string text = "abc";  // FIPS 180-4's first example
  EXPECT_EQ(Sha256(std::as_bytes(std::span(text))), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
}

TEST(BenchProof, FailsBeyondTheBoundAndOnNonFiniteOutput) {
  const Sample good{1.001, 1.0, 1.0};
  EXPECT_TRUE(CheckSamples("", std::vector<Sample>{good}, 0.01).ok());
  EXPECT_FALSE(CheckSamples("", std::vector<Sample>{good}, 0.0001).ok());
  EXPECT_FALSE(CheckSamples("", std::vector<Sample>{good, {std::nan(""), 0.0, 1.0}}, 0.01).ok());
  EXPECT_NEAR(CheckSamples("", std::vector<Sample>{good}, 0.01).max_abs_error, 0.001, 1e-12);
}

TEST(BenchProof, FailsWhereNothingWasWrittenBetweenTheSamples) {
  std::vector<float> out(100, 1.0F);
  Proof proof = CheckSamples("", std::vector<Sample>{{1.0, 1.0, 1.0}}, 0.01);
  RequireWritten(out, &proof);
  EXPECT_TRUE(proof.ok());
  out[57] = std::nanf("");
  RequireWritten(out, &proof);
  EXPECT_FALSE(proof.ok());
}

TEST(BenchProof, SamplesAreSpreadAndDistinct) {
  const auto few = SampleIndices(1000, 7);
  EXPECT_EQ(few.front(), 0);
  EXPECT_EQ(few.back(), 999);
  EXPECT_EQ(std::set<int64_t>(few.begin(), few.end()).size(), 7U);
  EXPECT_THAT(SampleIndices(3, 7), ElementsAre(0, 1, 2));
}

TEST(BenchAttentionReference, IsTheMeanOfValuesOverEqualKeys) {
  const std::vector<float> query = {1.0F, 2.0F};
  const std::vector<float> keys = {1.0F, 1.0F, 1.0F, 1.0F};
  const std::vector<float> values = {1.0F, 0.0F, 3.0F, -4.0F};
  std::vector<Sample> samples;
  AppendSamples({query.data(), keys.data(), values.data(), 2, 2, 2, 1.0}, std::vector<float>{2.0F, -2.0F}, &samples);
  EXPECT_NEAR(samples[0].exact, 2.0, 1e-12);
  EXPECT_NEAR(samples[1].exact, -2.0, 1e-12);
  EXPECT_EQ(samples[1].actual, -2.0);
}

TEST(BenchAttentionReference, CausalCountsVisiblePairs) {
  EXPECT_EQ(SeenPairs(4, 4, true), 10.0);
  EXPECT_EQ(SeenPairs(4, 4, false), 16.0);
  EXPECT_EQ(SeenPairs(1, 512, true), 512.0);
}

// A device that multiplies only FP32 and BF16, as a CPU does.
kernels::Roofs TwoPeaks() {
  kernels::Roofs roofs;
  roofs.fastest[static_cast<int>(Peak::kFp32)] = {100e9, "fma"};
  roofs.fastest[static_cast<int>(Peak::kBf16)] = {200e9, "dot"};
  roofs.own[static_cast<int>(Peak::kFp32)] = roofs.own[static_cast<int>(Peak::kBf16)] = {50e9, "sse2"};
  roofs.dram_read_bytes = 10e9;
  return roofs;
}

// Two layers of hidden 4, one head, ffn 8: a layer has 48 parameters in QKV, 16 and 64 after it; the head has 40.
TEST(BenchModelWork, LastLayerOfPrefillComputesOnlySampledRowsAfterKv) {
  engine::ModelConfig config;
  config.num_layers = 2;
  config.hidden_dim = config.attention.head_dim = 4;
  config.attention.num_heads = config.attention.num_kv_heads = 1;
  config.mlp.ffn_dim = 8;
  config.vocab_size = 10;
  engine::ExecutionProfile profile;
  profile.precision = kernels::Precision::kBf16;
  const double pairs = 3 + 4 + 5;  // of tokens 2, 3 and 4
  ASSERT_EQ(SeenPairs(3, 5, true), pairs);
  const Work sampled = PrefillWork(config, profile, 2, 3, 1);
  EXPECT_EQ(sampled.flops, 2.0 * (2 * 48 * 3 + 80 * 3 + 80 * 1 + 40) + 4.0 * 4 * (pairs + 5));
  EXPECT_EQ(sampled.bytes, 2.0 * (2 * 128 + 40));
  const Work chunk = PrefillWork(config, profile, 2, 3, 0);
  EXPECT_EQ(chunk.flops, 2.0 * (2 * 48 * 3 + 80 * 3) + 4.0 * 4 * pairs);
  EXPECT_EQ(chunk.bytes, 2.0 * (2 * 128 - 80));
  // The last layer reads the K and V of the first one: it has 16 parameters in QKV, of queries.
  config.attention.kv_sources = {0, 0};
  const Work shared = PrefillWork(config, profile, 2, 3, 1);
  EXPECT_EQ(shared.flops, 2.0 * (48 * 3 + 80 * 1 + (16 + 80) * 1 + 40) + 4.0 * 4 * (5 + 5));
  EXPECT_EQ(PrefillWork(config, profile, 2, 3, 0).bytes, 2.0 * 48);
}

// Hidden 4, ffn 8: 64 parameters of an MLP in each layer. Before and after the mixing a short convolution has 48 and
// 16, a delta net 80 and 24, attention 48 and 16; the head has 40.
TEST(BenchModelWork, RecurrentLayersCountTheirStatesInPlaceOfPairs) {
  engine::ModelConfig config;
  config.num_layers = 3;
  config.mixers = {engine::MixerKind::kShortConv, engine::MixerKind::kDelta, engine::MixerKind::kAttention};
  config.hidden_dim = config.attention.head_dim = config.short_conv.channels = 4;
  config.attention.num_heads = config.attention.num_kv_heads = 1;
  config.short_conv.taps = 3;
  config.delta.shape = {.key_heads = 1, .value_heads = 2, .key_dim = 2, .value_dim = 3};
  config.delta.conv_taps = 4;
  config.mlp.ffn_dim = 8;
  config.vocab_size = 10;
  engine::ExecutionProfile profile;
  profile.precision = kernels::Precision::kBf16;
  const double states = 2 * 3 * 4 + 2 * 4 * 10 + 6 * 2 * 2 * 3;  // of a token
  const Work prompt = PrefillWork(config, profile, 2, 3, 1);
  EXPECT_EQ(prompt.flops, 2.0 * (128 * 3 + 168 * 3 + 48 * 3 + 80 + 40) + 4.0 * 4 * 5 + 3 * states);
  EXPECT_EQ(prompt.bytes, 2.0 * (128 + 168 + 128 + 40));
  const Work decode = DecodeWork(config, profile, 2, 0.0);
  EXPECT_EQ(decode.flops, 2 * (2.0 * (128 + 168 + 128 + 40) + states));
  const double state_bytes = 4 * (2 * 4 + 3 * 10 + 2 * 16 * 2);  // columns of a head's state in sixteens
  EXPECT_EQ(decode.bytes, 2.0 * (128 + 168 + 128 + 40) + 2 * 2 * state_bytes);
}

TEST(BenchRecord, TheTighterRoofBoundsACase) {
  const Bound compute = BoundOf({.flops = 1e9, .bytes = 1e6, .peak = Peak::kBf16}, TwoPeaks());
  EXPECT_STREQ(compute.roof, "bf16_flops");
  EXPECT_STREQ(compute.unit, "dot");
  EXPECT_NEAR(compute.us, 5000.0, 1e-6);
  EXPECT_NEAR(compute.variant_us, 20000.0, 1e-6);
  EXPECT_STREQ(BoundOf({.flops = 1e9, .bytes = 1e6, .peak = Peak::kFp32}, TwoPeaks()).roof, "fp32_flops");
  const Bound memory = BoundOf({.flops = 1e6, .bytes = 1e9, .peak = Peak::kFp32}, TwoPeaks());
  EXPECT_STREQ(memory.roof, "dram_read");
  EXPECT_NEAR(memory.memory_us, memory.us, 1e-9);
  EXPECT_LT(memory.compute_us, memory.us);
}

TEST(BenchRecord, BoundsByTheDevicesOwnPeakOrTheOneItWidensTo) {
  const Work fp16{.flops = 1e9, .bytes = 0.0, .peak = PeakOf(kernels::Precision::kFp16)};
  const Work fp8{.flops = 1e9, .bytes = 0.0, .peak = PeakOf(kernels::Precision::kFp8)};
  EXPECT_STREQ(BoundOf(fp16, TwoPeaks()).roof, "fp32_flops");
  EXPECT_STREQ(BoundOf(fp8, TwoPeaks()).roof, "bf16_flops");
  kernels::Roofs tensor = TwoPeaks();
  for (const Peak peak : {Peak::kFp16, Peak::kFp8}) {
    tensor.fastest[static_cast<int>(peak)] = tensor.own[static_cast<int>(peak)] = {400e9, "mma"};
  }
  EXPECT_STREQ(BoundOf(fp16, tensor).roof, "fp16_flops");
  EXPECT_STREQ(BoundOf(fp8, tensor).roof, "fp8_flops");
  EXPECT_NEAR(BoundOf(fp8, tensor).us, 2500.0, 1e-6);
}

TEST(BenchRecord, UsesTheHigherRoofOfBeforeAndAfter) {
  Machine machine;
  machine.before.fastest[0] = {1.0, "slow"};
  machine.after.fastest[0] = {2.0, "fast"};
  machine.before.dram_read_bytes = 3.0;
  EXPECT_EQ(machine.Best().fastest[0].flops, 2.0);
  EXPECT_STREQ(machine.Best().fastest[0].unit, "fast");
  EXPECT_EQ(machine.Best().dram_read_bytes, 3.0);
}

TEST(BenchTiming, ComputesMedianAndMinimum) {
  const Timing odd = TimingOf({3e-6, 1e-6, 2e-6});
  EXPECT_NEAR(odd.median_us, 2.0, 1e-9);
  EXPECT_NEAR(odd.min_us, 1.0, 1e-9);
  EXPECT_NEAR(TimingOf({4e-6, 1e-6}).median_us, 2.5, 1e-9);
}

TEST(BenchTiming, PreparesBeforeEveryCallAndStopsAtAnError) {
  int64_t prepared = 0;
  int64_t called = 0;
  const auto timing = Measure(
      {.max_seconds = 0.01},
      [&](int64_t call) {
        EXPECT_EQ(call, called++);
        EXPECT_EQ(prepared, called);
        return absl::OkStatus();
      },
      [&] {
        ++prepared;
        return absl::OkStatus();
      });
  ASSERT_TRUE(timing.ok());
  EXPECT_GE(timing->iterations, 1);
  const auto failed = Measure({.max_seconds = 0.01},
                              [](int64_t call) { return call < 2 ? absl::OkStatus() : absl::InternalError("broke"); });
  EXPECT_EQ(failed.status().message(), "broke");
}

// Counts what is enqueued and waited for, as on an asynchronous device.
TEST(BenchTiming, TimesEnqueuedCallsInGroups) {
  int64_t enqueued = 0;
  int64_t since_prepare = 0;
  std::vector<int64_t> groups;
  TimingOptions options{.max_seconds = 0.02};
  options.wait = [&] {
    if (enqueued > 0) groups.push_back(enqueued);
    enqueued = 0;
    return absl::OkStatus();
  };
  const auto timing = Measure(
      options,
      [&](int64_t) {
        ++enqueued;
        ++since_prepare;
        return absl::OkStatus();
      },
      [&] {
        since_prepare = 0;
        return absl::OkStatus();
      });
  ASSERT_TRUE(timing.ok());
  EXPECT_EQ(enqueued, 0) << "every call was waited for";
  EXPECT_EQ(groups.front(), 1) << "warm-up";
  EXPECT_EQ(groups.back(), 1) << "the output is that of a call right after prepare";
  EXPECT_EQ(since_prepare, 1);
  EXPECT_GT(timing->group, 1);
  EXPECT_EQ(*std::max_element(groups.begin(), groups.end()), timing->group);
  options.wait = [] { return absl::InternalError("the device failed"); };
  EXPECT_EQ(Measure(options, [](int64_t) { return absl::OkStatus(); }).status().message(), "the device failed");
}

TEST(BenchTiming, PairsCallsWithTheRoofAroundThem) {
  RoofPairs none;
  EXPECT_TRUE(none.Start().ok() && none.Add(1.0).ok());
  EXPECT_EQ(none.Median(), 0.0);

  const double least[] = {1e-3, 3e-3, 3e-3, 3e-3};
  size_t probes = 0;
  std::vector<double> lengths;
  RoofPairs pairs([&](double seconds) -> absl::StatusOr<double> {
    lengths.push_back(seconds);
    return least[probes++];
  });
  ASSERT_TRUE(pairs.Start().ok());
  ASSERT_TRUE(pairs.Add(4e-3).ok());  // rates of 1000 and 333 calls a second: 667 at the mean
  EXPECT_NEAR(pairs.Median(), 1.5 / 4.0, 1e-12);
  for (int call = 0; call < 4; ++call) ASSERT_TRUE(pairs.Add(0.6e-3).ok());  // short ones share a probe
  EXPECT_EQ(probes, 3U);
  EXPECT_NEAR(pairs.Median(), (1.5 / 4.0 + 4 * 3.0 / 2.4) / 2, 1e-12);
  ASSERT_TRUE(pairs.Add(1.0).ok());
  EXPECT_NEAR(pairs.Median(), 1.5 / 4.0, 1e-12) << "of 0.375, 5 and 0.003";
  EXPECT_EQ(lengths, (std::vector<double>{1e-3, 1e-3, 1e-3, 20e-3})) << "a quarter of the calls' time, within bounds";

  RoofPairs broken([](double) { return absl::InternalError("no clock"); });
  EXPECT_EQ(broken.Start().message(), "no clock");
}

}  // namespace
}  // namespace dunlin::tools::bench

// SPDX-License-Identifier: Apache-2.0
// The device's sampling on the host, with one lane and with several concurrent ones, against the CPU device: the same
// token for every row and every combination of options, and log-probabilities up to FP32 rounding.
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <memory>

#include "kernels/api/device.h"
#include "kernels/cuda/sampling/sample_row.h"
#include "tests/kernels/cuda/device/thread_lanes.h"
#include "tests/kernels/cuda/portable_cpu.h"
#include "tests/kernels/sampling/random_logits.h"

namespace dunlin::kernels::cuda {
namespace {

constexpr float kInfiniteLogit = std::numeric_limits<float>::infinity();

// Rows of one length with their edit lists, and the results.
struct Call {
  explicit Call(int32_t vocab) : vocab_size(vocab) {}

  SampleRow& Add(const std::vector<float>& row_logits) {
    logits.insert(logits.end(), row_logits.begin(), row_logits.end());
    return rows.emplace_back();
  }
  void AddPair(SampleRow* row, int32_t* count, int32_t id, uint32_t word) {
    if (row->edits.first_word == 0) row->edits.first_word = static_cast<int32_t>(words.size());
    words.push_back(static_cast<uint32_t>(id));
    words.push_back(word);
    ++*count;
  }
  SampleParams Params(std::vector<SampledToken>* out, std::vector<double>* workspace, size_t bytes) {
    out->assign(rows.size(), SampledToken{});
    workspace->assign(bytes / sizeof(double) + 16, std::numeric_limits<double>::quiet_NaN());
    const auto at = (reinterpret_cast<uintptr_t>(workspace->data()) + 63) / 64 * 64;
    return {.logits = logits.data(),
            .vocab_size = vocab_size,
            .num_rows = static_cast<int32_t>(rows.size()),
            .rows = rows.data(),
            .words = words.data(),
            .out = out->data(),
            .workspace = reinterpret_cast<void*>(at),
            .workspace_bytes = bytes};
  }

  int32_t vocab_size;
  std::vector<float> logits;
  std::vector<SampleRow> rows;
  std::vector<uint32_t> words = {0};  // lists start at word 1: first_word 0 means no list yet
};

std::vector<SampledToken> OnCpu(Call* call) {
  std::vector<SampledToken> out;
  std::vector<double> workspace;
  const auto num_rows = static_cast<int32_t>(call->rows.size());
  const size_t bytes = Cpu().ops->sample_workspace(Cpu().context, num_rows, call->vocab_size);
  const SampleParams params = call->Params(&out, &workspace, bytes);
  EXPECT_EQ(Cpu().ops->sample(Cpu().context, params), KernelStatus::kOk);
  return out;
}

// lanes 0: the single lane.
std::vector<SampledToken> OnLanes(Call* call, int32_t lanes) {
  std::vector<SampledToken> out;
  std::vector<double> workspace;
  const int64_t row_bytes = SampleScratchBytes(call->vocab_size);
  const SampleParams params = call->Params(&out, &workspace, static_cast<size_t>(row_bytes) * call->rows.size());
  for (int32_t row = 0; row < params.num_rows; ++row) {
    const auto shared = std::make_unique<SampleShared>();
    std::memset(shared.get(), 0xA5, sizeof(SampleShared));  // a block finds its shared memory as the last one left it
    if (lanes == 0) {
      SampleOneRow(SingleLane(), params, row_bytes, row, shared.get());
    } else {
      RunLanes(lanes, [&](const ThreadLanes& each) { SampleOneRow(each, params, row_bytes, row, shared.get()); });
    }
  }
  return out;
}

// Log-probabilities are differences of an FP32 logit and an FP64 sum whose order depends on the device.
void ExpectSame(const TokenOutput& own, const TokenOutput& cpu, int32_t logprobs) {
  ASSERT_EQ(own.token_id, cpu.token_id);
  ASSERT_EQ(own.num_top, cpu.num_top);
  if (logprobs >= 0) {
    EXPECT_NEAR(own.logprob, cpu.logprob, 1e-6 * (1.0 + std::fabs(cpu.logprob)));
    EXPECT_EQ(own.rank, cpu.rank);
  }
  for (int32_t i = 0; i < cpu.num_top; ++i) {
    const auto at = static_cast<size_t>(i);
    ASSERT_EQ(own.top[at].token_id, cpu.top[at].token_id) << i;
    EXPECT_NEAR(own.top[at].logprob, cpu.top[at].logprob, 1e-6 * (1.0 + std::fabs(cpu.top[at].logprob)));
  }
}

void ExpectCpusTokens(Call* call, std::initializer_list<int32_t> lane_counts) {
  const std::vector<SampledToken> expected = OnCpu(call);
  for (const int32_t lanes : lane_counts) {
    const std::vector<SampledToken> sampled = OnLanes(call, lanes);
    for (size_t row = 0; row < expected.size(); ++row) {
      SCOPED_TRACE("row " + std::to_string(row) + " lanes " + std::to_string(lanes));
      ASSERT_EQ(sampled[row].valid, expected[row].valid);
      if (expected[row].valid) ExpectSame(sampled[row].token, expected[row].token, call->rows[row].logprobs);
    }
  }
}

TEST(CudaSampling, EveryCombinationOfTruncationsDrawsTheCpusToken) {
  uint32_t seed = 0;
  for (const int32_t vocab_size : {1, 2, 255, 256, 257, 1500}) {
    Call call(vocab_size);
    for (const float scale : {0.01F, 2.0F, 30.0F}) {
      for (const int32_t top_k : {0, 1, 3, 40, 5000}) {
        for (const float top_p : {1.0F, 0.9F, 0.3F, 1e-6F}) {
          for (const float min_p : {0.0F, 0.05F, 1.0F}) {
            SampleRow& row = call.Add(RandomLogits(vocab_size, scale, ++seed));
            row.temperature = seed % 3 == 0 ? 0.7F : seed % 3 == 1 ? 1.0F : 3.0F;
            row.top_k = top_k;
            row.top_p = top_p;
            row.min_p = min_p;
            row.seed = uint64_t{seed} << 20;
            row.output_index = static_cast<int32_t>(seed % 8);
            row.position = static_cast<int32_t>(seed);
          }
        }
      }
    }
    ExpectCpusTokens(&call, {0});
  }
}

TEST(CudaSampling, WholeVocabulariesDrawTheCpusToken) {
  for (const int32_t vocab_size : {50257, 128256}) {
    Call call(vocab_size);
    for (uint32_t seed = 0; seed < 12; ++seed) {
      SampleRow& row = call.Add(RandomLogits(vocab_size, 2.5F, seed));
      row.top_k = seed % 2 == 0 ? 0 : static_cast<int32_t>(seed * seed * 10);
      row.top_p = seed % 3 == 0 ? 1.0F : 0.95F;
      row.min_p = seed % 4 == 0 ? 0.01F : 0.0F;
      row.logprobs = seed % 5 == 0 ? 2 : -1;
      row.seed = seed;
    }
    ExpectCpusTokens(&call, {0});
  }
}

TEST(CudaSampling, ConcurrentLanesDrawTheCpusToken) {
  Call call(1100);
  for (uint32_t seed = 0; seed < 8; ++seed) {
    SampleRow& row = call.Add(RandomLogits(1100, 3.0F, seed));
    row.top_k = seed % 2 == 0 ? 50 : 0;
    row.top_p = seed % 3 == 0 ? 0.8F : 1.0F;
    row.logprobs = static_cast<int32_t>(seed % 4) - 1;
    row.seed = seed;
  }
  ExpectCpusTokens(&call, {2, 5});
}

// Rounded logits: most tokens have ties, so cuts fall among equals, of which the lower ids stay.
TEST(CudaSampling, CutsAmongEqualsMatchTheCpus) {
  Call call(700);
  for (uint32_t seed = 0; seed < 60; ++seed) {
    std::vector<float> logits = RandomLogits(700, 1.5F, seed);
    for (float& x : logits) x = std::round(x);  // including -0
    SampleRow& row = call.Add(logits);
    row.top_k = static_cast<int32_t>(seed * 3);
    row.top_p = seed % 2 == 0 ? 0.55F : 1.0F;
    row.seed = seed;
  }
  ExpectCpusTokens(&call, {0, 3});
}

TEST(CudaSampling, TopPCutsAmongTheEqualsLeftByTopK) {
  Call call(9);
  for (uint64_t seed = 0; seed < 40; ++seed) {
    SampleRow& row = call.Add({1, 2, 1, 2, 1, 2, 2, 2, 0});
    row.top_k = 4;
    row.top_p = 0.6F;  // of four equal tokens: 2.4 of them, so three
    row.seed = seed;
  }
  ExpectCpusTokens(&call, {0, 2});
  for (const SampledToken& sampled : OnLanes(&call, 0)) {
    EXPECT_TRUE(sampled.token.token_id == 1 || sampled.token.token_id == 3 || sampled.token.token_id == 5);
  }
}

TEST(CudaSampling, EditsMatchTheCpus) {
  Call call(300);
  for (uint32_t seed = 0; seed < 60; ++seed) {
    SampleRow& row = call.Add(RandomLogits(300, 2.0F, seed));
    row.temperature = seed % 4 == 0 ? 0.0F : 0.9F;
    row.repetition_penalty = seed % 2 == 0 ? 1.3F : 0.8F;
    row.presence_penalty = 0.5F;
    row.frequency_penalty = -0.25F;
    row.logprobs = 20;
    row.seed = seed;
    const auto at = static_cast<int32_t>(seed);
    call.AddPair(&row, &row.edits.num_biases, at, std::bit_cast<uint32_t>(7.5F));
    call.AddPair(&row, &row.edits.num_biases, 299, std::bit_cast<uint32_t>(-3.0F));
    for (int32_t i = 0; i < 20; ++i) {
      call.AddPair(&row, &row.edits.num_counts, (at + 7 * i) % 300,
                   static_cast<uint32_t>(i | (i % 3 == 0 ? 1 << 30 : 0)));
    }
    call.words.push_back((seed + 1) % 300);
    row.edits.num_banned = 1;
    row.edits.has_mask = seed % 3 == 0;
    for (int32_t i = 0; row.edits.has_mask && i < MaskWords(300); ++i) call.words.push_back(0x5A5A5A5AU);
  }
  ExpectCpusTokens(&call, {0, 4});
}

TEST(CudaSampling, ScoresMatchTheCpus) {
  for (const int32_t vocab_size : {1, 19, 1000}) {
    Call call(vocab_size);
    for (int32_t i = 0; i < 25; ++i) {
      SampleRow& row = call.Add(RandomLogits(vocab_size, 4.0F, static_cast<uint32_t>(i)));
      row.scored_token = i * 31 % vocab_size;
      row.logprobs = i;  // 21 and above are clamped to 20
    }
    ExpectCpusTokens(&call, {0, 3});
  }
}

TEST(CudaSampling, ARowWithoutFiniteLogitsIsInvalid) {
  for (const float bad :
       {std::numeric_limits<float>::quiet_NaN(), -std::numeric_limits<float>::quiet_NaN(), kInfiniteLogit}) {
    for (const size_t at : {size_t{0}, size_t{17}, size_t{49}}) {
      Call call(50);
      std::vector<float> logits(50, 0.0F);
      logits[at] = bad;
      call.Add(logits);
      call.Add(logits).scored_token = 3;
      for (const SampledToken& sampled : OnLanes(&call, 3)) EXPECT_FALSE(sampled.valid);
    }
  }
  Call call(50);
  call.Add(std::vector<float>(50, -kInfiniteLogit));
  SampleRow& banned = call.Add(std::vector<float>(50, 1.0F));
  banned.edits.first_word = 1;
  banned.edits.has_mask = true;
  call.words.insert(call.words.end(), 2, 0);
  for (const SampledToken& sampled : OnLanes(&call, 0)) EXPECT_FALSE(sampled.valid);
}

// Rows of a call are independent: each has the bits that it has alone.
TEST(CudaSampling, ARowDoesNotDependOnOtherRows) {
  Call together(400);
  std::vector<SampledToken> alone;
  for (uint32_t seed = 0; seed < 9; ++seed) {
    Call one(400);
    for (Call* call : {&one, &together}) {
      SampleRow& row = call->Add(RandomLogits(400, 2.0F, seed));
      row.top_p = 0.7F;
      row.logprobs = 3;
      row.seed = seed;
    }
    alone.push_back(OnLanes(&one, 3).front());
  }
  const std::vector<SampledToken> sampled = OnLanes(&together, 3);
  for (size_t i = 0; i < alone.size(); ++i) {
    EXPECT_EQ(sampled[i].token.token_id, alone[i].token.token_id);
    EXPECT_EQ(sampled[i].token.logprob, alone[i].token.logprob);
  }
}

}  // namespace
}  // namespace dunlin::kernels::cuda

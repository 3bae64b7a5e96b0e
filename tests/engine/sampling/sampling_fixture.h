// SPDX-License-Identifier: Apache-2.0
// Requests for the sampling tests, and the CPU device's sampling of them, one row at a time.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "engine/plan/sequence_view.h"
#include "engine/sampling/logit_edits.h"
#include "engine/sampling/sample_rows.h"
#include "kernels/api/device.h"
#include "tests/engine/sampling/fixed_mask.h"
#include "tests/kernels/sampling/random_logits.h"

namespace dunlin::engine {

using kernels::RandomLogits;

// One draw: a plan of one sequence, as a scheduler makes it, and the logits of its last token.
struct RowInput {
  StepPlan plan;
  const float* logits = nullptr;

  const SequenceStep& step() const { return plan.sequences[0]; }
  LogitEditInput edits() const {
    return {.biases = plan.BiasesOf(step()),
            .counts = plan.CountsOf(step()),
            .banned = plan.BannedOf(step()),
            .mask = plan.MaskOf(step()),
            .grammar = plan.GrammarMaskOf(step())};
  }
};

// A request with its tokens.
struct SampleCase {
  SamplingParams sampling;
  StoppingParams stopping;
  std::vector<TokenId> tokens = {0};
  int32_t prompt_len = 1;
  int32_t output_index = 0;
  std::vector<TokenId> eos_token_ids = {};
  std::vector<uint32_t> allowed_tokens = {};  // the mask of a constraint

  RowInput Input(const std::vector<float>& logits) const {
    RowInput input;
    input.logits = logits.data();
    TokenCounts counts;
    const auto prompt = std::span(tokens).first(static_cast<size_t>(prompt_len));
    counts.Start(prompt, static_cast<int32_t>(tokens.size() - prompt.size()));
    for (const TokenId token : std::span(tokens).subspan(prompt.size())) counts.AddOutput(token);
    input.plan.mask_words = kernels::MaskWords(static_cast<int32_t>(logits.size()));
    AppendSequence({},
                   {.tokens = tokens,
                    .prompt_len = prompt_len,
                    .sampling = sampling,
                    .stopping = stopping,
                    .counts = counts.list(),
                    .output_index = output_index,
                    .eos_token_ids = eos_token_ids,
                    .constrained = OutputWithMask(allowed_tokens)},
                   {.num_tokens = static_cast<int32_t>(tokens.size()), .samples = true}, &input.plan);
    return input;
  }
};

class Sampler {
 public:
  explicit Sampler(int32_t vocab_size)
      : vocab_size_(vocab_size), workspace_(cpu().ops->sample_workspace(cpu().context, 1, vocab_size) + 64) {}

  bool Sample(const RowInput& input, TokenOutput* out) {
    words_.assign(NumEditWords(input.edits()) + 1, 0);
    kernels::SampleRow row = input.step().row;
    row.edits = WriteEdits(input.edits(), words_.data(), 0);
    return Run(row, input.logits, out);
  }
  bool Score(const float* logits, TokenId token_id, int32_t num_top, TokenOutput* out) {
    return Run(ScoreRow(token_id, num_top), logits, out);
  }

 private:
  static kernels::Device& cpu() {
    static std::string error;
    static const auto device = kernels::OpenDevice(DeviceKind::kCpu, {1, "portable"}, &error);
    return *device;
  }

  bool Run(const kernels::SampleRow& row, const float* logits, TokenOutput* out) {
    kernels::SampledToken sampled;
    const auto at = (reinterpret_cast<uintptr_t>(workspace_.data()) + 63) / 64 * 64;
    const kernels::SampleParams params{.logits = logits,
                                       .vocab_size = vocab_size_,
                                       .num_rows = 1,
                                       .rows = &row,
                                       .words = words_.data(),
                                       .out = &sampled,
                                       .workspace = reinterpret_cast<void*>(at),
                                       .workspace_bytes = workspace_.size() - 64};
    EXPECT_EQ(cpu().ops->sample(cpu().context, params), kernels::KernelStatus::kOk);
    *out = sampled.token;
    return sampled.valid;
  }

  int32_t vocab_size_;
  std::vector<uint32_t> words_;
  std::vector<unsigned char> workspace_;
};

}  // namespace dunlin::engine

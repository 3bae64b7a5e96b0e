// SPDX-License-Identifier: Apache-2.0
#include "engine/runtime/sample_stage.h"

#include "engine/base/check.h"
#include "engine/sampling/logit_edits.h"
#include "engine/sampling/sample_rows.h"

namespace dunlin::engine {
namespace {

using kernels::KernelStatus;
using kernels::SampledToken;
using kernels::SampleRow;

// The device's rows, then its words.
size_t RowBytes() {
  return sizeof(SampleRow) * kMaxLogitRows;
}
size_t MaxWords(const MemoryPlan& plan) {
  return (plan[BufferId::kSampleRows] - RowBytes()) / sizeof(uint32_t);
}

}  // namespace

size_t SampleStage::Bytes(const MemoryPlan& plan) {
  const auto rows = static_cast<size_t>(plan.max_tokens_per_step);
  return rows * (sizeof(SampleRow) + sizeof(SampledToken)) + MaxWords(plan) * sizeof(uint32_t);
}

SampleStage::SampleStage(const MemoryPlan& plan, std::byte* memory, int32_t index)
    : rows_(reinterpret_cast<SampleRow*>(memory)),
      results_(reinterpret_cast<SampledToken*>(rows_ + plan.max_tokens_per_step)),
      words_(reinterpret_cast<uint32_t*>(results_ + plan.max_tokens_per_step)),
      max_words_(MaxWords(plan)),
      keeps_results_(plan.takes_drawn_tokens),
      first_device_row_(keeps_results_ ? index * plan.max_tokens_per_step : 0) {
  static_assert(sizeof(SampleRow) % alignof(SampledToken) == 0 && sizeof(SampledToken) % alignof(uint32_t) == 0,
                "the arrays follow each other");
}

void SampleStage::Restart() {
  num_rows_ = launched_rows_ = 0;
  ReuseWords();
}

bool SampleStage::AddDraw(const StepPlan& plan, const SequenceStep& step, int32_t draw) {
  const LogitEditInput input{.biases = plan.BiasesOf(step),
                             .counts = plan.CountsOf(step),
                             .drafts = plan.DraftsOf(step).first(static_cast<size_t>(draw)),
                             .banned = plan.BannedOf(step, draw),
                             .mask = plan.MaskOf(step),
                             .grammar = plan.GrammarMaskOf(step, draw)};
  const size_t needed = NumEditWords(input);
  if (needed > max_words_ - num_words_) return false;
  rows_[num_rows_] = step.row;
  rows_[num_rows_].position += draw;
  rows_[num_rows_++].edits = WriteEdits(input, words_ + launched_words_, num_words_ - launched_words_);
  num_words_ += needed;
  return true;
}

void SampleStage::AddScore(TokenId token, int32_t logprobs) {
  rows_[num_rows_++] = ScoreRow(token, logprobs);
}

KernelStatus SampleStage::Launch(const float* logits, int32_t vocab_size, StepBuffers* buffers) {
  const int32_t count = pending();
  if (count == 0) return KernelStatus::kOk;
  DUNLIN_CHECK(count <= kMaxLogitRows, "more sampled rows than logit rows exist at once");
  const kernels::DeviceOps& ops = *buffers->device()->ops;
  kernels::DeviceContext* context = buffers->device()->context;
  auto* rows = static_cast<SampleRow*>(buffers->at(BufferId::kSampleRows));
  auto* words = reinterpret_cast<uint32_t*>(rows + kMaxLogitRows);
  SampledToken* const results =
      static_cast<SampledToken*>(buffers->at(BufferId::kSampled)) + (keeps_results_ ? device_row(launched_rows_) : 0);
  const size_t num_words = num_words_ - launched_words_;
  const kernels::SampleParams params{.logits = logits,
                                     .vocab_size = vocab_size,
                                     .num_rows = count,
                                     .rows = rows,
                                     .words = words,
                                     .out = results,
                                     .workspace = buffers->at(BufferId::kWorkspace),
                                     .workspace_bytes = buffers->bytes(BufferId::kWorkspace)};
  const auto block = static_cast<size_t>(count);
  auto status = ops.copy_to_device(context, rows, rows_ + launched_rows_, block * sizeof(SampleRow));
  if (status == KernelStatus::kOk && num_words > 0) {
    status = ops.copy_to_device(context, words, words_ + launched_words_, num_words * sizeof(uint32_t));
  }
  if (status == KernelStatus::kOk) status = ops.sample(context, params);
  if (status == KernelStatus::kOk) {
    status = ops.copy_to_host(context, results_ + launched_rows_, results, block * sizeof(SampledToken));
  }
  launched_rows_ = num_rows_;
  launched_words_ = num_words_;
  return status;
}

}  // namespace dunlin::engine

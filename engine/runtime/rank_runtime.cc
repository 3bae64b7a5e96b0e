// SPDX-License-Identifier: Apache-2.0
#include "engine/runtime/rank_runtime.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "engine/base/check.h"
#include "engine/layers/predictor.h"
#include "engine/runtime/device_status.h"
#include "kernels/api/backing_unit.h"

namespace dunlin::engine {
namespace {

size_t BytesPerPage(const MemoryPlan& plan) {
  return plan[BufferId::kKvPool] / static_cast<size_t>(plan.num_pages);
}

// A page of each group at least, for the bytes are rounded down: without one, no token can be computed.
size_t FirstKvBytes(const MemoryPlan& plan, const KvBackingOptions& options) {
  return std::max(options.first_bytes,
                  static_cast<size_t>(plan.kv_groups.count()) * BytesPerPage(plan) + kernels::kBackingUnit);
}

int32_t TokensPerPage(const MemoryPlan& plan, Precision precision) {
  return KvLayoutOf(plan.kv_shapes, 0, precision, plan.kv_fp8).tokens_per_page;
}

}  // namespace

absl::StatusOr<std::unique_ptr<RankRuntime>> RankRuntime::Create(const Model* model, const MemoryPlan& plan,
                                                                 const EngineOptions& options, const Team& team) {
  const bool backs_later = options.kv_backing.memory_left != nullptr;
  absl::StatusOr<std::unique_ptr<StepBuffers>> buffers =
      StepBuffers::Allocate(plan, model->rank_config().position_constants(), model->device(),
                            backs_later ? FirstKvBytes(plan, options.kv_backing) : SIZE_MAX);
  if (!buffers.ok()) return buffers.status();
  const Fp8Options fp8 = (*buffers)->bytes(BufferId::kFp8Scales) > 0 ? options.fp8 : Fp8Options{};
  absl::StatusOr<std::vector<float>> constants = InputConstants(fp8, *model);
  if (!constants.ok()) return constants.status();
  absl::StatusOr<Fp8Scaling> scaling = Fp8Scaling::Create(fp8, NumInputs(model->config()), *constants, model->device(),
                                                          (*buffers)->floats(BufferId::kFp8Scales));
  if (!scaling.ok()) return scaling.status();
  Slots slots;
  for (int32_t i = 0; i < plan.steps_in_flight; ++i) {
    absl::StatusOr<std::unique_ptr<StepSlot>> slot = StepSlot::Create(plan, model->device(), i);
    if (!slot.ok()) return slot.status();
    slots.push_back(*std::move(slot));
  }
  std::unique_ptr<StepSlot> prediction;
  if (plan.predicts) {
    absl::StatusOr<std::unique_ptr<StepSlot>> slot = StepSlot::Create(plan, model->device(), 0);
    if (!slot.ok()) return slot.status();
    prediction = *std::move(slot);
  }
  std::unique_ptr<RankRuntime> runtime(
      new RankRuntime(model, *std::move(buffers), std::move(slots), *scaling, std::move(prediction)));
  if (team.group != nullptr) {
    const RankRuntime& first = team.first != nullptr ? *team.first : *runtime;
    runtime->buffers_->Share(*first.buffers_, team.group);
  }
  runtime->BackPool(options.kv_backing);
  return runtime;
}

RankRuntime::RankRuntime(const Model* model, std::unique_ptr<StepBuffers> buffers, Slots slots, Fp8Scaling scaling,
                         std::unique_ptr<StepSlot> prediction)
    : model_(model),
      buffers_(std::move(buffers)),
      scaling_(scaling),
      graphs_(buffers_->device(), buffers_->plan()),
      adapters_(model->rank_config(), buffers_->plan()),
      hidden_rows_(buffers_->plan().steps_in_flight, buffers_->plan().max_tokens_per_step,
                   buffers_->plan().max_sequences),
      prediction_(std::move(prediction)),
      slots_(std::move(slots)) {
  for (const std::unique_ptr<StepSlot>& slot : slots_) {
    if (graphs_.on()) slot->inputs().RoundShapes();
  }
}

// From now on on a thread of its own, where it is not backed.
void RankRuntime::BackPool(const KvBackingOptions& options) {
  const size_t pool_bytes = memory_plan()[BufferId::kKvPool];
  const size_t backed = buffers_->kv_backed();
  if (backed == pool_bytes) return;
  backing_ = std::make_unique<PoolBacking>(options, memory_plan().num_pages, BytesPerPage(memory_plan()), backed,
                                           [buffers = buffers_.get()](size_t end) { return buffers->BackKvPool(end); });
}

KvPoolState RankRuntime::kv_pool() const {
  return backing_ != nullptr ? backing_->state() : KvPoolState{memory_plan().num_pages, false};
}

absl::Status RankRuntime::Launch(const StepPlan& plan, size_t slot) {
  graphs_.BeginStep();
  StepSlot& step = *slots_[slot];
  step.Restart(plan.sequences.size(), plan.draft_rows.size());
  hidden_rows_.BeginStep();
  int32_t first_row = 0;
  for (const SubBatch& batch : plan.sub_batches) {
    if (absl::Status status = RunSubBatch(plan, batch, first_row, &step); !status.ok()) return status;
    first_row += batch.num_tokens;
  }
  before_ = &step;
  return DeviceStatus(step.Close(), "marking a step's end");
}

absl::Status RankRuntime::Wait(size_t slot) {
  return DeviceStatus(slots_[slot]->Wait(), "waiting for a step");
}

absl::Status RankRuntime::RunSubBatch(const StepPlan& plan, const SubBatch& batch, int32_t first_row, StepSlot* slot) {
  StepInputs& inputs = slot->inputs();
  const int32_t page_tokens = TokensPerPage(memory_plan(), batch.profile.precision);
  inputs.Stage(plan, batch, page_tokens);
  if (memory_plan().predicts) inputs.StagePredictor(plan, batch, page_tokens, first_row, &hidden_rows_);
  const bool drawn =
      memory_plan().takes_drawn_tokens && before_ != nullptr && inputs.StageDrawn(plan, batch, before_->draws());
  absl::Status status = DeviceStatus(inputs.Upload(buffers_.get()), "copy of step inputs");
  if (status.ok() && drawn) status = DeviceStatus(inputs.TakeDrawn(buffers_.get()), "tokens of the step before");
  if (!status.ok()) return status;
  PassInputs pass_inputs = inputs.pass_inputs();
  pass_inputs.adapters = adapters_.Stage(plan, batch, inputs.head_rows());
  ForwardPass pass(model_->rank_config(), model_->weights(batch.profile.precision), batch.profile, pass_inputs,
                   buffers_->layers(), &scaling_);
  const bool samples = model_->rank_config().rank == 0;
  const auto num_head_rows = static_cast<int32_t>(inputs.head_rows().size());
  const auto count_from = [num_head_rows](int32_t first) { return std::min(kMaxLogitRows, num_head_rows - first); };
  status = graphs_.Run(batch.profile, pass_inputs, [&] {
    absl::Status ran = pass.RunLayers();
    // Rows that repeat others are in the first part.
    if (ran.ok() && num_head_rows > 0) ran = pass.RunHead(0, std::min(kMaxLogitRows, pass_inputs.kept.count));
    return ran;
  });
  for (int32_t first = 0; status.ok() && first < num_head_rows; first += kMaxLogitRows) {
    if (first > 0) status = pass.RunHead(first, count_from(first));
    if (status.ok() && samples) status = SampleRows(plan, first, count_from(first), slot);
  }
  if (status.ok() && memory_plan().predicts) status = StorePredictorKv(batch, first_row, inputs, &pass);
  if (!status.ok()) return status;
  return batch.profile.precision == Precision::kFp8 ? scaling_.EndSubBatch() : absl::OkStatus();
}

float* RankRuntime::HiddenAt(int32_t row) const {
  return buffers_->floats(BufferId::kPredictorHidden) + int64_t{row} * model_->config().hidden_dim;
}

absl::Status RankRuntime::StorePredictorKv(const SubBatch& batch, int32_t first_row, const StepInputs& inputs,
                                           ForwardPass* pass) {
  absl::Status status = pass->KeepFinalHidden(HiddenAt(hidden_rows_.RowOfStep(first_row)));
  if (!status.ok()) return status;
  const PassInputs predictor_inputs = inputs.predictor_inputs();
  return Predictor(model_->rank_config(), model_->weights(batch.profile.precision), batch.profile, predictor_inputs,
                   buffers_->layers())
      .StoreKv();
}

absl::Status RankRuntime::Predict(const StepPlan& plan, std::span<const int32_t> hidden_rows) {
  DUNLIN_CHECK(prediction_ != nullptr && plan.num_tokens <= memory_plan().max_sequences, "nothing to predict with");
  prediction_->Restart(plan.sequences.size(), 0);
  for (const SubBatch& batch : plan.sub_batches) {
    if (absl::Status status = PredictSubBatch(plan, batch, hidden_rows); !status.ok()) return status;
  }
  absl::Status status = DeviceStatus(prediction_->Close(), "marking a prediction's end");
  return status.ok() ? DeviceStatus(prediction_->Wait(), "waiting for a prediction") : status;
}

// Of one token a sequence, so that sequences are rows.
absl::Status RankRuntime::PredictSubBatch(const StepPlan& plan, const SubBatch& batch,
                                          std::span<const int32_t> hidden_rows) {
  StepInputs& inputs = prediction_->inputs();
  inputs.Stage(plan, batch, TokensPerPage(memory_plan(), batch.profile.precision));
  inputs.StagePrediction(hidden_rows.subspan(static_cast<size_t>(batch.first_sequence)));
  absl::Status status = DeviceStatus(inputs.Upload(buffers_.get()), "copy of a prediction's inputs");
  if (!status.ok()) return status;
  const PassInputs predictor_inputs = inputs.predictor_inputs();
  Predictor predictor(model_->rank_config(), model_->weights(batch.profile.precision), batch.profile, predictor_inputs,
                      buffers_->layers());
  const bool samples = model_->rank_config().rank == 0;
  status = predictor.Run(HiddenAt(PredictedHidden(batch.first_sequence)));
  for (int32_t first = 0; status.ok() && first < batch.num_tokens; first += kMaxLogitRows) {
    const int32_t count = std::min(kMaxLogitRows, batch.num_tokens - first);
    status = predictor.RunHead(first, count);
    if (status.ok() && samples) status = SampleRows(plan, first, count, prediction_.get());
  }
  return status;
}

// The layers of the sub-batch are computed by now or, on a device of its own, enqueued.
void RankRuntime::FinishGrammarMasks(const StepPlan& plan) {
  if (plan.has_grammar_masks()) return;
  const auto began = std::chrono::steady_clock::now();
  plan.FinishGrammarMasks();
  const std::chrono::nanoseconds waited = std::chrono::steady_clock::now() - began;
  if (waited.count() > longest_mask_wait_ns()) longest_mask_wait_ns_.store(waited.count(), std::memory_order_relaxed);
}

absl::Status RankRuntime::SampleRows(const StepPlan& plan, int32_t first, int32_t count, StepSlot* slot) {
  FinishGrammarMasks(plan);
  int32_t launched = 0;
  for (int32_t i = 0; i < count; ++i) {
    const HeadRow& row = slot->inputs().head_rows()[static_cast<size_t>(first + i)];
    if (AddRow(plan, row, slot)) continue;
    // The lists of earlier rows fill the memory for them: once they are on the device, there is room for any row.
    absl::Status status = LaunchRows(launched, slot);
    const kernels::Device* device = model_->device();
    if (status.ok()) status = DeviceStatus(device->ops->synchronize(device->context), "copy of sampled rows");
    if (!status.ok()) return status;
    launched = i;
    slot->samples().ReuseWords();
    DUNLIN_CHECK(AddRow(plan, row, slot), "a row's lists exceed the plan");
  }
  return LaunchRows(launched, slot);
}

// The rows added since the last launch; the first of them is row first_logit_row of kLogits.
absl::Status RankRuntime::LaunchRows(int32_t first_logit_row, StepSlot* slot) {
  const int32_t vocab_size = model_->config().vocab_size;
  const float* logits = buffers_->floats(BufferId::kLogits) + int64_t{first_logit_row} * vocab_size;
  return DeviceStatus(slot->samples().Launch(logits, vocab_size, buffers_.get()), "sampling");
}

bool RankRuntime::AddRow(const StepPlan& plan, const HeadRow& row, StepSlot* slot) {
  const SequenceStep& step = plan.sequences[static_cast<size_t>(row.sequence_index)];
  if (row.scored_position < 0) {
    const int32_t draw = row.draft_row < 0 ? 0 : row.draft_row - step.draft_rows.first + 1;
    if (!slot->samples().AddDraw(plan, step, draw)) return false;
  } else {
    const auto token = static_cast<size_t>(row.scored_position - step.first_position);
    slot->samples().AddScore(plan.TokensOf(step)[token], step.prompt_logprobs);
  }
  slot->AddRow(row);
  return true;
}

}  // namespace dunlin::engine

#include "engine/runtime/model_runtime.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/base/check.h"
#include "engine/runtime/forward_pass.h"

namespace dunlin::engine {
namespace {

absl::Status CopyStatus(kernels::KernelStatus status, const char* what) {
  if (status == kernels::KernelStatus::kOk) return absl::OkStatus();
  return absl::InternalError(absl::StrCat("copy of ", what, " failed: ", kernels::Name(status)));
}

}  // namespace

absl::StatusOr<std::unique_ptr<ModelRuntime>> ModelRuntime::Create(const Model* model, const EngineOptions& options) {
  if (model->config().is_encoder()) {
    return absl::FailedPreconditionError(
        absl::StrCat(model->config().architecture, " is an encoder: it cannot generate"));
  }
  absl::StatusOr<MemoryPlan> plan = PlanMemory(model->config(), model->precisions(), *model->device(), options);
  if (!plan.ok()) return plan.status();
  absl::StatusOr<std::unique_ptr<StepBuffers>> buffers =
      StepBuffers::Allocate(*plan, model->config().inv_freq, model->device());
  if (!buffers.ok()) return buffers.status();
  const Fp8Options fp8 = (*buffers)->bytes(BufferId::kFp8Scales) > 0 ? options.fp8 : Fp8Options{};
  absl::StatusOr<std::vector<float>> constants = InputConstants(fp8, *model);
  if (!constants.ok()) return constants.status();
  absl::StatusOr<Fp8Scaling> scaling = Fp8Scaling::Create(fp8, NumInputs(model->config()), *constants, buffers->get());
  if (!scaling.ok()) return scaling.status();
  return std::unique_ptr<ModelRuntime>(new ModelRuntime(model, options, *std::move(buffers), *std::move(scaling)));
}

ModelRuntime::ModelRuntime(const Model* model, const EngineOptions& options, std::unique_ptr<StepBuffers> buffers,
                           Fp8Scaling scaling)
    : model_(model),
      buffers_(std::move(buffers)),
      scaling_(std::move(scaling)),
      inputs_(buffers_->plan()),
      sampler_(model->config().vocab_size, model->config().eos_token_ids) {
  if (model->device()->ops->kind != kernels::DeviceKind::kCpu) {
    host_logits_.resize(buffers_->bytes(BufferId::kLogits) / sizeof(float));
  }
  result_.outputs.reserve(static_cast<size_t>(options.max_sequences));
  result_.prompt_scores.reserve(static_cast<size_t>(options.max_tokens_per_step));
}

int32_t ModelRuntime::tokens_per_page(Precision precision) const {
  const std::vector<Precision>& resident = model_->precisions();
  const bool is_resident = std::find(resident.begin(), resident.end(), precision) != resident.end();
  return is_resident ? KvLayoutOf(model_->config(), precision, memory_plan().kv_fp8).tokens_per_page : 0;
}

absl::StatusOr<StepHandle> ModelRuntime::Launch(const StepPlan& plan) {
  DUNLIN_CHECK(in_flight_ < 0, "a step is in flight already; depth is 1");
  DUNLIN_CHECK(plan.sequences.size() <= result_.outputs.capacity(), "a plan holds more sequences than max_sequences");
  result_.Clear();
  result_.outputs.resize(plan.sequences.size());
  for (const SubBatch& batch : plan.sub_batches) {
    if (absl::Status status = RunSubBatch(plan, batch); !status.ok()) return status;
  }
  in_flight_ = next_handle_;
  next_handle_ = (next_handle_ + 1) & 0x7FFFFFFF;
  return in_flight_;
}

absl::Status ModelRuntime::Collect(StepHandle handle, StepResult* result) {
  DUNLIN_CHECK(handle == in_flight_, "collecting a step that was not launched");
  in_flight_ = -1;
  *result = result_;
  return absl::OkStatus();
}

absl::Status ModelRuntime::RunSubBatch(const StepPlan& plan, const SubBatch& batch) {
  inputs_.Stage(plan, batch, tokens_per_page(batch.profile.precision));
  absl::Status status = CopyStatus(inputs_.Upload(buffers_.get()), "step inputs");
  if (!status.ok()) return status;

  ForwardPass pass(model_->config(), model_->weights(batch.profile.precision), batch.profile, inputs_, *buffers_,
                   &scaling_);
  if (status = pass.RunLayers(); !status.ok()) return status;
  const auto num_head_rows = static_cast<int32_t>(inputs_.head_rows().size());
  for (int32_t first = 0; first < num_head_rows; first += kHeadBlockRows) {
    const int32_t count = std::min(kHeadBlockRows, num_head_rows - first);
    if (status = pass.RunHead(first, count); !status.ok()) return status;
    absl::StatusOr<const float*> logits = HostLogits(count);
    if (!logits.ok()) return logits.status();
    for (int32_t i = 0; i < count; ++i) {
      UseRow(plan, inputs_.head_rows()[static_cast<size_t>(first + i)],
             *logits + static_cast<int64_t>(i) * model_->config().vocab_size);
    }
  }
  return batch.profile.precision == Precision::kFp8 ? scaling_.EndSubBatch() : absl::OkStatus();
}

absl::StatusOr<const float*> ModelRuntime::HostLogits(int32_t rows) {
  kernels::Device* device = model_->device();
  const float* logits = buffers_->floats(BufferId::kLogits);
  if (host_logits_.empty()) return logits;  // CPU: device memory is host memory, and a call has finished on return
  const size_t bytes = static_cast<size_t>(rows) * static_cast<size_t>(model_->config().vocab_size) * sizeof(float);
  absl::Status status =
      CopyStatus(device->ops->copy_to_host(device->context, host_logits_.data(), logits, bytes), "logits");
  if (status.ok()) status = CopyStatus(device->ops->synchronize(device->context), "logits");
  if (!status.ok()) return status;
  return host_logits_.data();
}

void ModelRuntime::UseRow(const StepPlan& plan, const HeadRow& head_row, const float* logits) {
  const auto sequence_index = static_cast<size_t>(head_row.sequence_index);
  const SequenceStep& step = plan.sequences[sequence_index];
  StepOutput& output = result_.outputs[sequence_index];
  if (head_row.scored_position < 0) {
    SampleRow(step, logits, &output);
    return;
  }
  PromptScore& score = result_.prompt_scores.emplace_back();
  score.sequence_index = head_row.sequence_index;
  score.position = head_row.scored_position;
  const Sequence& sequence = *step.sequence;
  const TokenId token = sequence.tokens[static_cast<size_t>(head_row.scored_position)];
  if (!sampler_.Score(logits, token, sequence.request.sampling.prompt_logprobs, &score.token)) {
    output.numerical_error = true;
    result_.prompt_scores.pop_back();
  }
}

void ModelRuntime::SampleRow(const SequenceStep& step, const float* logits, StepOutput* output) {
  const Sequence& sequence = *step.sequence;
  SampleInput input;
  input.logits = logits;
  input.sampling = &sequence.request.sampling;
  input.stopping = &sequence.request.stopping;
  input.tokens = sequence.tokens.data();
  input.num_tokens = step.first_position + step.num_tokens;
  input.prompt_len = sequence.prompt_len;
  input.output_index = sequence.request.output_index;
  input.allowed_tokens = step.allowed_tokens;
  output->sampled = !output->numerical_error && sampler_.Sample(input, &output->token);
  output->numerical_error = !output->sampled;
}

}  // namespace dunlin::engine

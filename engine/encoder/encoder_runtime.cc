// SPDX-License-Identifier: Apache-2.0
#include "engine/encoder/encoder_runtime.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/encoder/encoder_memory.h"
#include "engine/encoder/pooling.h"
#include "engine/layers/forward_pass.h"
#include "engine/runtime/tuning.h"

namespace dunlin::engine {
namespace {

absl::Status CopyStatus(kernels::KernelStatus status, const char* what) {
  if (status == kernels::KernelStatus::kOk) return absl::OkStatus();
  return absl::InternalError(absl::StrCat("copy of ", what, " failed: ", kernels::Name(status)));
}

}  // namespace

absl::StatusOr<std::unique_ptr<ModelEncoderRuntime>> ModelEncoderRuntime::Create(const Model* model,
                                                                                 const EngineOptions& options) {
  if (!model->config().is_encoder()) {
    return absl::FailedPreconditionError(absl::StrCat(model->config().architecture, " is a decoder: it cannot embed"));
  }
  // Scales shared by tokens, the file's or earlier batches', are a decoder's; what is reported must be what ran.
  if (options.fp8.recipe != Fp8Recipe::kPerToken) {
    return absl::FailedPreconditionError(
        absl::StrCat("models[].fp8.recipe is ", Traits(options.fp8.recipe).name, "; an encoder runs per_token"));
  }
  const int32_t num_ranks = model->num_ranks();
  if (num_ranks > 1 && options.execution == ExecutionMode::kEager) {
    return absl::FailedPreconditionError(
        absl::StrCat("models[].parallel.tensor is ", num_ranks, ", with which models[].execution is fused"));
  }
  const absl::StatusOr<std::vector<MemoryPlan>> plans =
      PlanEncoderRanks(model->config(), num_ranks, model->precisions(), *model->device(), options);
  if (!plans.ok()) return plans.status();
  std::unique_ptr<RankTeam> team;
  if (num_ranks > 1) {
    absl::StatusOr<std::unique_ptr<RankTeam>> started = RankTeam::Start(num_ranks);
    if (!started.ok()) return started.status();
    team = *std::move(started);
  }
  RankBuffers buffers;
  for (int32_t rank = 0; rank < num_ranks; ++rank) {
    const ScopedCpus bound(team == nullptr ? std::vector<int>() : team->cpus(rank));
    const Model& of_rank = model->of_rank(rank);
    absl::StatusOr<std::unique_ptr<StepBuffers>> own = StepBuffers::Allocate(
        (*plans)[static_cast<size_t>(rank)], of_rank.rank_config().position_constants(), of_rank.device());
    if (!own.ok()) return own.status();
    buffers.push_back(*std::move(own));
    if (team != nullptr) buffers.back()->Share(*buffers.front(), team->group());
  }
  return std::unique_ptr<ModelEncoderRuntime>(
      new ModelEncoderRuntime(model, SumOf(*plans), std::move(team), std::move(buffers)));
}

ModelEncoderRuntime::ModelEncoderRuntime(const Model* model, MemoryPlan plan, std::unique_ptr<RankTeam> team,
                                         RankBuffers buffers)
    : model_(model),
      plan_(std::move(plan)),
      team_(std::move(team)),
      buffers_(std::move(buffers)),
      rows_(model->config(), buffers_.front()->plan()),
      sums_(static_cast<size_t>(model->config().hidden_dim)) {
  if (model->config().classifier.mean) {
    means_.resize(static_cast<size_t>(plan_.max_sequences) * sums_.size());
  }
  if (model->device()->ops->kind != kernels::DeviceKind::kCpu) {
    host_hidden_.resize(buffers_.front()->bytes(BufferId::kHidden) / sizeof(float));
  }
}

absl::Status ModelEncoderRuntime::WarmUp(const ProfileTable& profiles, std::string* notice) {
  const Tuning tuning(model_->device(), notice);
  if (!tuning.on()) return absl::OkStatus();
  const std::vector<TokenId> tokens(static_cast<size_t>(memory_plan().max_context_tokens), 0);
  std::vector<float> vector(static_cast<size_t>(model_->config().hidden_dim));
  for (const Precision precision : model_->precisions()) {
    ExecutionChoice choice;
    choice.precision = precision;
    const absl::StatusOr<ExecutionProfile> profile = profiles.Resolve(choice);
    if (!profile.ok()) continue;  // no backend serves it
    EncodeBatch batch{.profile = *profile, .inputs = {}, .num_tokens = memory_plan().max_context_tokens};
    batch.inputs.push_back({.tokens = tokens.data(),
                            .num_tokens = batch.num_tokens,
                            .vector = vector.data(),
                            .dimensions = model_->config().hidden_dim});
    if (absl::Status status = Run(&batch); !status.ok()) return status;
  }
  return absl::OkStatus();
}

absl::Status ModelEncoderRuntime::Run(EncodeBatch* batch) {
  const ModelConfig& config = model_->config();
  rows_.Stage(*batch, KvLayoutOf(config, batch->profile.precision).tokens_per_page);
  absl::Status status = CopyStatus(rows_.Upload(buffers_.front().get()), "batch inputs");
  if (!status.ok()) return status;
  ForwardPass pass = PassOf(0, batch->profile);
  if (status = RunLayers(batch->profile, &pass); !status.ok()) return status;
  if (batch->classify) return Classify(&pass, batch);
  hidden_ = pass.hidden();
  const absl::StatusOr<const float*> hidden = HostHidden();
  if (!hidden.ok()) return hidden.status();
  for (size_t i = 0; i < batch->inputs.size(); ++i) {
    const float* rows = *hidden + static_cast<int64_t>(rows_.first_row(i)) * config.hidden_dim;
    PoolRows(rows, rows_.num_rows(i), config.hidden_dim, &batch->inputs[i], &sums_);
  }
  return absl::OkStatus();
}

// Ranks are on the CPU, where all of them read what is staged for rank 0.
ForwardPass ModelEncoderRuntime::PassOf(int32_t rank, const ExecutionProfile& profile) const {
  const Model& of_rank = model_->of_rank(rank);
  return ForwardPass(of_rank.rank_config(), of_rank.weights(profile.precision), profile, rows_.pass_inputs(),
                     buffers_[static_cast<size_t>(rank)]->layers());
}

absl::Status ModelEncoderRuntime::RunLayers(const ExecutionProfile& profile, ForwardPass* first) {
  if (team_ == nullptr) return first->RunLayers();
  return team_->Run([&](int32_t rank) {
    if (rank == 0) return first->RunLayers();
    return PassOf(rank, profile).RunLayers();
  });
}

// The head reads the first row of each input or the mean of its rows, and gives its vector.
absl::Status ModelEncoderRuntime::Classify(ForwardPass* pass, EncodeBatch* batch) {
  const bool mean = model_->config().classifier.mean;
  if (mean) {
    if (absl::Status status = MeansToDevice(pass, *batch); !status.ok()) return status;
  }
  const int32_t num_rows = mean ? static_cast<int32_t>(batch->inputs.size()) : rows_.num_rows();
  const absl::StatusOr<const float*> logits = pass->RunClassifier(num_rows);
  if (!logits.ok()) return logits.status();
  const int32_t num_labels = model_->config().classifier.num_labels;
  const absl::StatusOr<const float*> rows = HostRows(*logits, num_rows, num_labels);
  if (!rows.ok()) return rows.status();
  for (size_t i = 0; i < batch->inputs.size(); ++i) {
    const int64_t row = mean ? static_cast<int64_t>(i) : rows_.first_row(i);
    PoolRows(*rows + row * num_labels, 1, num_labels, &batch->inputs[i], &sums_);
  }
  return absl::OkStatus();
}

absl::Status ModelEncoderRuntime::MeansToDevice(ForwardPass* pass, const EncodeBatch& batch) {
  hidden_ = pass->hidden();
  const absl::StatusOr<const float*> hidden = HostHidden();
  if (!hidden.ok()) return hidden.status();
  const int32_t hidden_dim = model_->config().hidden_dim;
  for (size_t i = 0; i < batch.inputs.size(); ++i) {
    BatchInput mean{.vector = means_.data() + i * sums_.size(), .dimensions = hidden_dim, .pooling = Pooling::kMean};
    const float* rows = *hidden + static_cast<int64_t>(rows_.first_row(i)) * hidden_dim;
    PoolRows(rows, rows_.num_rows(i), hidden_dim, &mean, &sums_);
  }
  kernels::Device* device = model_->device();
  const size_t bytes = batch.inputs.size() * sums_.size() * sizeof(float);
  return CopyStatus(device->ops->copy_to_device(device->context, pass->classifier_rows(), means_.data(), bytes),
                    "pooled hidden states");
}

absl::StatusOr<const float*> ModelEncoderRuntime::HostRows(const float* rows, int32_t num_rows, int32_t columns) {
  kernels::Device* device = model_->device();
  if (host_hidden_.empty()) return rows;  // CPU: device memory is host memory, and a call has finished on return
  const size_t bytes = static_cast<size_t>(num_rows) * static_cast<size_t>(columns) * sizeof(float);
  absl::Status status =
      CopyStatus(device->ops->copy_to_host(device->context, host_hidden_.data(), rows, bytes), "hidden states");
  if (status.ok()) status = CopyStatus(device->ops->synchronize(device->context), "hidden states");
  if (!status.ok()) return status;
  return host_hidden_.data();
}

}  // namespace dunlin::engine

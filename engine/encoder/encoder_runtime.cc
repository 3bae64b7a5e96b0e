// SPDX-License-Identifier: Apache-2.0
#include "engine/encoder/encoder_runtime.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/encoder/encoder_memory.h"
#include "engine/encoder/pooling.h"
#include "engine/layers/forward_pass.h"
#include "engine/runtime/device_status.h"
#include "engine/runtime/rank_links.h"
#include "engine/runtime/tuning.h"

namespace dunlin::engine {
namespace {

absl::Status CopyStatus(kernels::KernelStatus status, const char* what) {
  if (status == kernels::KernelStatus::kOk) return absl::OkStatus();
  return absl::InternalError(absl::StrCat("copy of ", what, " failed: ", kernels::Name(status)));
}

// Rows of an image to where they go.
void CopyRows(const float* rows, int64_t num_rows, BatchInput* input) {
  const int64_t count = num_rows * input->dimensions;
  std::copy_n(rows, count, input->vector);
  input->finite = std::all_of(input->vector, input->vector + count, [](float value) { return std::isfinite(value); });
}

// The longest image, as high as one row.
ImageGrid LongestGrid(const ImageSpec& image, int32_t max_patches) {
  return {image.merge, max_patches / image.patches_per_row() * image.merge};
}

// The table of an image encoder's positions, which the host resamples; empty where it has none.
absl::StatusOr<std::vector<float>> PatchPositionsOf(const Model& model) {
  const float* table = model.weights(model.precisions().front()).patch_positions;
  if (table == nullptr) return std::vector<float>();
  const int64_t side = model.config().image.position_side;
  std::vector<float> positions(static_cast<size_t>(side * side * model.config().hidden_dim));
  const kernels::Device& device = *model.device();
  const size_t bytes = positions.size() * sizeof(float);
  absl::Status status =
      CopyStatus(device.ops->copy_to_host(device.context, positions.data(), table, bytes), "positions of patches");
  if (status.ok()) status = CopyStatus(device.ops->synchronize(device.context), "positions of patches");
  if (!status.ok()) return status;
  return positions;
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
  const absl::StatusOr<std::vector<MemoryPlan>> plans =
      PlanEncoderRanks(model->config(), num_ranks, model->precisions(), *model->device(), options);
  if (!plans.ok()) return plans.status();
  absl::StatusOr<Ranks> ranks = StartRanks(*model);
  if (!ranks.ok()) return ranks.status();
  absl::StatusOr<RankBuffers> buffers = AllocateBuffers(*model, *plans, *ranks);
  if (!buffers.ok()) return buffers.status();
  const absl::StatusOr<std::vector<float>> positions = PatchPositionsOf(*model);
  if (!positions.ok()) return positions.status();
  return std::unique_ptr<ModelEncoderRuntime>(
      new ModelEncoderRuntime(model, SumOf(*plans), *std::move(ranks), *std::move(buffers), *positions));
}

absl::StatusOr<ModelEncoderRuntime::Ranks> ModelEncoderRuntime::StartRanks(const Model& model) {
  Ranks ranks;
  if (model.num_ranks() == 1) return ranks;
  absl::StatusOr<std::unique_ptr<RankTeam>> team = RankTeam::Start(model.num_ranks());
  if (!team.ok()) return team.status();
  ranks.team = *std::move(team);
  absl::StatusOr<std::unique_ptr<DeviceLinks>> links = LinkRanks(model, ranks.team.get());
  if (!links.ok()) return links.status();
  ranks.links = *std::move(links);
  return ranks;
}

absl::StatusOr<ModelEncoderRuntime::RankBuffers> ModelEncoderRuntime::AllocateBuffers(
    const Model& model, const std::vector<MemoryPlan>& plans, const Ranks& ranks) {
  RankBuffers buffers;
  std::vector<StepBuffers*> linked;
  for (int32_t rank = 0; rank < model.num_ranks(); ++rank) {
    const ScopedCpus bound(ranks.team == nullptr ? std::vector<int>() : ranks.team->cpus(rank));
    const Model& of_rank = model.of_rank(rank);
    absl::StatusOr<std::unique_ptr<StepBuffers>> own = StepBuffers::Allocate(
        plans[static_cast<size_t>(rank)], of_rank.rank_config().position_constants(), of_rank.device());
    if (!own.ok()) return own.status();
    buffers.push_back(*std::move(own));
    linked.push_back(buffers.back().get());
    if (ranks.team != nullptr && ranks.links == nullptr) {
      buffers.back()->Share(*buffers.front(), ranks.team->group());
    }
  }
  if (ranks.links != nullptr) LinkBuffers(linked, ranks.team.get(), ranks.links.get());
  return buffers;
}

ModelEncoderRuntime::ModelEncoderRuntime(const Model* model, MemoryPlan plan, Ranks ranks, RankBuffers buffers,
                                         const std::vector<float>& patch_positions)
    : model_(model),
      plan_(std::move(plan)),
      kv_shapes_(KvShapesOf(model->config())),
      ranks_(std::move(ranks)),
      buffers_(std::move(buffers)),
      sums_(static_cast<size_t>(model->config().hidden_dim)) {
  const size_t num_staged = ranks_.links != nullptr ? buffers_.size() : 1;
  rows_.reserve(num_staged);
  for (size_t rank = 0; rank < num_staged; ++rank) {
    rows_.emplace_back(model->config(), buffers_[rank]->plan(), patch_positions);
  }
  if (model->config().classifier.mean) {
    means_.resize(static_cast<size_t>(plan_.max_sequences) * sums_.size());
  }
  if (model->device()->ops->kind != kernels::DeviceKind::kCpu) {
    const auto rows_of_images = static_cast<size_t>(plan_.max_tokens_per_step) *
                                static_cast<size_t>(model->config().image.out_features_per_patch());
    host_hidden_.resize(std::max(buffers_.front()->bytes(BufferId::kHidden) / sizeof(float), rows_of_images));
  }
}

ModelEncoderRuntime::~ModelEncoderRuntime() {
  EndLinkedRanks(*model_, ranks_.links.get());
}

absl::Status ModelEncoderRuntime::WarmUp(const ProfileTable& profiles, std::string* notice) {
  if (ranks_.links != nullptr) {  // what one rank times, the others wait for
    NoteLinks(*ranks_.links, notice);
    return absl::OkStatus();
  }
  const Tuning tuning(model_->device(), notice);
  if (!tuning.on()) return absl::OkStatus();
  for (const Precision precision : model_->precisions()) {
    ExecutionChoice choice;
    choice.precision = precision;
    const absl::StatusOr<ExecutionProfile> profile = profiles.Resolve(choice);
    if (!profile.ok()) continue;  // no backend serves it
    if (absl::Status status = Warm(*profile); !status.ok()) return status;
  }
  return absl::OkStatus();
}

absl::Status ModelEncoderRuntime::Warm(const ExecutionProfile& profile) {
  const ModelConfig& config = model_->config();
  const bool images = config.is_image_encoder();
  const ImageGrid grid = LongestGrid(config.image, memory_plan().max_context_tokens);
  const int32_t count = images ? static_cast<int32_t>(grid.num_patches()) : memory_plan().max_context_tokens;
  const int32_t dimensions = images ? config.image.out_dim : config.hidden_dim;
  const int32_t num_rows = images ? count / config.image.patches_per_row() : 1;
  const std::vector<TokenId> tokens(static_cast<size_t>(images ? 0 : count), 0);
  const std::vector<float> patches(static_cast<size_t>(count) * static_cast<size_t>(config.image.patch_features()));
  std::vector<float> vector(static_cast<size_t>(num_rows) * static_cast<size_t>(dimensions));
  EncodeBatch batch{.profile = profile, .inputs = {}, .num_tokens = count};
  batch.inputs.push_back({.tokens = tokens.data(),
                          .num_tokens = count,
                          .patches = patches.data(),
                          .grid = grid,
                          .vector = vector.data(),
                          .dimensions = dimensions});
  return Run(&batch);
}

absl::Status ModelEncoderRuntime::Run(EncodeBatch* batch) {
  const ModelConfig& config = model_->config();
  absl::Status status = Upload(*batch);
  if (!status.ok()) return status;
  ForwardPass pass = PassOf(0, batch->profile);
  if (status = RunLayers(batch->profile, &pass); !status.ok()) return status;
  if (batch->classify) return Classify(&pass, batch);
  hidden_ = pass.hidden();
  if (config.is_image_encoder()) return Project(&pass, batch);
  const absl::StatusOr<const float*> hidden = HostHidden();
  if (!hidden.ok()) return hidden.status();
  for (size_t i = 0; i < batch->inputs.size(); ++i) {
    const float* first = *hidden + static_cast<int64_t>(rows().first_row(i)) * config.hidden_dim;
    PoolRows(first, rows().num_rows(i), config.hidden_dim, &batch->inputs[i], &sums_);
  }
  return absl::OkStatus();
}

absl::Status ModelEncoderRuntime::Upload(const EncodeBatch& batch) {
  const int32_t tokens_per_page = KvLayoutOf(kv_shapes_, 0, batch.profile.precision, false).tokens_per_page;
  const auto upload = [&](int32_t rank) {
    RaggedBatch& staged = rows_[static_cast<size_t>(rank)];
    staged.Stage(batch, tokens_per_page);
    return CopyStatus(staged.Upload(buffers_[static_cast<size_t>(rank)].get()), "batch inputs");
  };
  return ranks_.links == nullptr ? upload(0) : ranks_.team->Run(upload);
}

ForwardPass ModelEncoderRuntime::PassOf(int32_t rank, const ExecutionProfile& profile) const {
  const Model& of_rank = model_->of_rank(rank);
  const RaggedBatch& staged = ranks_.links != nullptr ? rows_[static_cast<size_t>(rank)] : rows();
  return ForwardPass(of_rank.rank_config(), of_rank.weights(profile.precision), profile, staged.pass_inputs(),
                     buffers_[static_cast<size_t>(rank)]->layers());
}

// Each linked rank waits for its device, so that one that fails ends what the others wait for.
absl::Status ModelEncoderRuntime::RunLayers(const ExecutionProfile& profile, ForwardPass* first) {
  if (ranks_.team == nullptr) return first->RunLayers();
  return ranks_.team->Run([&](int32_t rank) {
    absl::Status status = rank == 0 ? first->RunLayers() : PassOf(rank, profile).RunLayers();
    if (!status.ok() || ranks_.links == nullptr) return status;
    const kernels::Device* device = model_->of_rank(rank).device();
    return DeviceStatus(device->ops->synchronize(device->context), "waiting for a batch");
  });
}

// The head reads the first row of each input or the mean of its rows, and gives its vector.
absl::Status ModelEncoderRuntime::Classify(ForwardPass* pass, EncodeBatch* batch) {
  const bool mean = model_->config().classifier.mean;
  if (mean) {
    if (absl::Status status = MeansToDevice(pass, *batch); !status.ok()) return status;
  }
  const int32_t num_rows = mean ? static_cast<int32_t>(batch->inputs.size()) : rows().num_rows();
  const absl::StatusOr<const float*> logits = pass->RunClassifier(num_rows);
  if (!logits.ok()) return logits.status();
  const int32_t num_labels = model_->config().classifier.num_labels;
  const absl::StatusOr<const float*> of_rows = HostRows(*logits, num_rows, num_labels);
  if (!of_rows.ok()) return of_rows.status();
  for (size_t i = 0; i < batch->inputs.size(); ++i) {
    const int64_t row = mean ? static_cast<int64_t>(i) : rows().first_row(i);
    PoolRows(*of_rows + row * num_labels, 1, num_labels, &batch->inputs[i], &sums_);
  }
  return absl::OkStatus();
}

absl::Status ModelEncoderRuntime::Project(ForwardPass* pass, EncodeBatch* batch) {
  const ImageSpec& image = model_->config().image;
  const absl::StatusOr<const float*> projected = pass->RunProjector();
  if (!projected.ok()) return projected.status();
  const int32_t num_rows = batch->num_tokens / image.patches_per_row();
  const absl::StatusOr<const float*> host = HostRows(*projected, num_rows, image.out_dim);
  if (!host.ok()) return host.status();
  const float* next = *host;
  for (BatchInput& input : batch->inputs) {
    const int64_t rows_of_image = input.num_tokens / image.patches_per_row();
    CopyRows(next, rows_of_image, &input);
    next += rows_of_image * image.out_dim;
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
    const float* first = *hidden + static_cast<int64_t>(rows().first_row(i)) * hidden_dim;
    PoolRows(first, rows().num_rows(i), hidden_dim, &mean, &sums_);
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

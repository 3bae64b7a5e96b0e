// SPDX-License-Identifier: Apache-2.0
#include "engine/runtime/step_buffers.h"

#include <algorithm>
#include <cstddef>

#include "absl/strings/str_cat.h"
#include "kernels/api/backing_unit.h"

namespace dunlin::engine {
namespace {

LayerBuffers LayerBuffersOf(const StepBuffers& buffers) {
  const MemoryPlan& plan = buffers.plan();
  return {.device = buffers.device(),
          .max_tokens = plan.max_tokens_per_step,
          .max_kept_rows = plan.max_kept_rows,
          .max_context_tokens = plan.max_context_tokens,
          .kv_fp8 = plan.kv_fp8,
          .kv_shapes = plan.kv_shapes,
          .kv_places = plan.kv_places,
          .deterministic = plan.deterministic,
          .kv_pool = buffers.at(BufferId::kKvPool),
          .num_pages = plan.num_pages,
          .hidden = buffers.floats(BufferId::kHidden),
          .qkv = buffers.floats(BufferId::kQkv),
          .attention = buffers.floats(BufferId::kAttention),
          .gate = buffers.floats(BufferId::kGate),
          .mlp = buffers.at(BufferId::kMlp),
          .layer_inputs = buffers.floats(BufferId::kLayerInputs),
          .term = buffers.floats(BufferId::kTerm),
          .activation = buffers.at(BufferId::kActivation),
          .activation_bytes = buffers.bytes(BufferId::kActivation),
          .kept_rows = buffers.floats(BufferId::kKeptRows),
          .experts = buffers.at(BufferId::kExperts),
          .latent = buffers.at(BufferId::kLatent),
          .indexer = buffers.at(BufferId::kIndexer),
          .compressed = buffers.at(BufferId::kCompressed),
          .streams = buffers.at(BufferId::kStreams),
          .delta = buffers.at(BufferId::kDelta),
          .mamba = buffers.at(BufferId::kMamba),
          .predictor = buffers.floats(BufferId::kPredictor),
          .predictor_hidden = buffers.floats(BufferId::kPredictorHidden),
          .state = buffers.floats(BufferId::kState),
          .unfused = buffers.floats(BufferId::kUnfused),
          .adapter_input = buffers.floats(BufferId::kAdapterInput),
          .adapter_hidden = buffers.floats(BufferId::kAdapterHidden),
          .rotary = buffers.floats(BufferId::kRotary),
          .position_constants = buffers.floats(BufferId::kFrequencies),
          .logits = buffers.floats(BufferId::kLogits),
          .workspace = buffers.at(BufferId::kWorkspace),
          .workspace_bytes = buffers.bytes(BufferId::kWorkspace)};
}

}  // namespace

absl::StatusOr<std::unique_ptr<StepBuffers>> StepBuffers::Allocate(const MemoryPlan& plan,
                                                                   const std::vector<float>& position_constants,
                                                                   kernels::Device* device, size_t first_kv_bytes) {
  std::unique_ptr<StepBuffers> buffers(new StepBuffers(plan, device));
  for (size_t i = 0; i < kNumBuffers; ++i) {
    if (plan.bytes[i] == 0 || static_cast<BufferId>(i) == BufferId::kGraphs) continue;
    const bool is_pool = static_cast<BufferId>(i) == BufferId::kKvPool;
    buffers->memory_[i] =
        is_pool ? buffers->AllocatePool(first_kv_bytes) : device->ops->allocate(device->context, plan.bytes[i]);
    if (buffers->memory_[i] != nullptr) continue;
    const BufferTraits& traits = Traits(static_cast<BufferId>(i));
    return absl::ResourceExhaustedError(absl::StrCat("device memory has no room for the ", traits.name, " buffer of ",
                                                     plan.bytes[i], " bytes (", traits.key, ")"));
  }
  buffers->layers_ = LayerBuffersOf(*buffers);
  buffers->layers_.progress = &buffers->progress_;
  if (position_constants.empty()) return buffers;
  const kernels::KernelStatus copied = device->ops->copy_to_device(
      device->context, buffers->at(BufferId::kFrequencies), position_constants.data(), plan[BufferId::kFrequencies]);
  if (copied != kernels::KernelStatus::kOk) {
    return absl::InternalError(absl::StrCat("copy of position constants failed: ", kernels::Name(copied)));
  }
  return buffers;
}

void StepBuffers::Share(const StepBuffers& first, RankGroup* ranks) {
  const LayerBuffers& shared = first.layers_;
  if (&first != this) {
    layers_.kept_queries = layers_.kept_rows;
    layers_.hidden = shared.hidden;
    layers_.layer_inputs = shared.layer_inputs;
    layers_.term = shared.term;
    layers_.kept_rows = shared.kept_rows;
    layers_.logits = shared.logits;
  }
  SetRankBuffers(first, ranks);
}

void StepBuffers::Link(const std::vector<StepBuffers*>& ranks, RankGroup* group, kernels::RankLinks* links) {
  SetRankBuffers(*this, group);
  layers_.links = links;
  for (size_t rank = 0; rank < ranks.size(); ++rank) layers_.of_ranks[rank] = &ranks[rank]->layers_;
}

void StepBuffers::SetRankBuffers(const StepBuffers& gathers, RankGroup* ranks) {
  auto* const gathered = gathers.floats(BufferId::kGathered);
  const size_t half = gathers.plan_[BufferId::kGathered] / sizeof(float) / 2;
  layers_.ranks = ranks;
  layers_.gathered = {gathered, gathered + half};
  layers_.rank_columns = floats(BufferId::kRankColumns);
  layers_.rank_sum = layers_.rank_columns + plan_.rank_sum_offset;
}

void* StepBuffers::AllocatePool(size_t first_bytes) {
  const size_t bytes = plan_[BufferId::kKvPool];
  const bool later = first_bytes < bytes && device_->ops->reserve != nullptr;
  void* memory = later ? device_->ops->reserve(device_->context, bytes) : nullptr;
  if (memory == nullptr) {
    kv_backed_ = bytes;
    return device_->ops->allocate(device_->context, bytes);
  }
  kv_backed_ = first_bytes / kernels::kBackingUnit * kernels::kBackingUnit;
  if (device_->ops->back(device_->context, memory, kv_backed_)) return memory;
  device_->ops->release(device_->context, memory, bytes);
  return nullptr;
}

bool StepBuffers::BackKvPool(size_t end) {
  constexpr size_t kUnit = kernels::kBackingUnit;
  end = std::min((end + kUnit - 1) / kUnit * kUnit, plan_[BufferId::kKvPool]);
  if (end <= kv_backed_) return true;
  auto* const pool = static_cast<std::byte*>(at(BufferId::kKvPool));
  if (!device_->ops->back(device_->context, pool + kv_backed_, end - kv_backed_)) return false;
  kv_backed_ = end;
  return true;
}

StepBuffers::~StepBuffers() {
  for (size_t i = 0; i < kNumBuffers; ++i) {
    if (memory_[i] != nullptr) device_->ops->release(device_->context, memory_[i], plan_.bytes[i]);
  }
}

}  // namespace dunlin::engine

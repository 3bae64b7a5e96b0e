// SPDX-License-Identifier: Apache-2.0
// The device memory of a runtime: every buffer of the plan, allocated once and released together.
// Thread rule: the engine thread only.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <numeric>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/layers/layer_buffers.h"
#include "engine/runtime/memory_plan.h"
#include "kernels/api/device.h"

namespace dunlin::engine {

class StepBuffers {
 public:
  // Allocates every part of the plan and writes kFrequencies. RESOURCE_EXHAUSTED names the part that failed and its
  // config key; INTERNAL when the copy fails. position_constants: the model's, of the size the plan was made
  // for. device outlives the buffers. first_kv_bytes: of kKvPool so much is backed, or all where the device cannot back
  // memory later; BackKvPool backs the rest.
  static absl::StatusOr<std::unique_ptr<StepBuffers>> Allocate(const MemoryPlan& plan,
                                                               const std::vector<float>& position_constants,
                                                               kernels::Device* device,
                                                               size_t first_kv_bytes = SIZE_MAX);
  ~StepBuffers();
  StepBuffers(const StepBuffers&) = delete;
  StepBuffers& operator=(const StepBuffers&) = delete;

  void* at(BufferId id) const { return memory_[static_cast<size_t>(id)]; }
  float* floats(BufferId id) const { return static_cast<float*>(at(id)); }
  size_t bytes(BufferId id) const { return plan_[id]; }
  const MemoryPlan& plan() const { return plan_; }
  // Bytes at the start of kKvPool that have memory.
  size_t kv_backed() const { return kv_backed_; }
  // Backs kKvPool up to byte `end`, while others use what is backed. False when there is no memory. Thread rule: one
  // thread calls this and kv_backed.
  bool BackKvPool(size_t end);
  kernels::Device* device() const { return device_; }
  // Of a rank of a divided model, which the others meet in `ranks`: takes the buffers that all ranks share from those
  // of rank 0, which may be these and which outlive these.
  void Share(const StepBuffers& first, RankGroup* ranks);
  // Of linked ranks: what Share says, but that each has its own. ranks: by rank, one of them these; they outlive these.
  void Link(const std::vector<StepBuffers*>& ranks, RankGroup* group, kernels::RankLinks* links);
  // What a forward pass computes in.
  const LayerBuffers& layers() const { return layers_; }
  // Operations of forward passes so far. Any thread.
  uint64_t progress() const { return progress_.load(std::memory_order_relaxed); }

 private:
  StepBuffers(const MemoryPlan& plan, kernels::Device* device) : plan_(plan), device_(device) {}
  void* AllocatePool(size_t first_bytes);
  void SetRankBuffers(const StepBuffers& gathers, RankGroup* ranks);

  MemoryPlan plan_;
  kernels::Device* device_;
  std::array<void*, kNumBuffers> memory_{};  // null where the plan has 0 bytes
  size_t kv_backed_ = 0;
  LayerBuffers layers_;  // points into memory_
  std::atomic<uint64_t> progress_{0};
};

// Of all ranks of a model: StepBuffers, or what counts its own progress as they do. Any thread.
template <typename Ranks>
uint64_t ProgressOf(const Ranks& ranks) {
  return std::accumulate(ranks.begin(), ranks.end(), uint64_t{0},
                         [](uint64_t sum, const auto& rank) { return sum + rank->progress(); });
}

}  // namespace dunlin::engine

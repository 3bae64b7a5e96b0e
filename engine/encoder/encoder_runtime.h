// SPDX-License-Identifier: Apache-2.0
// Runs batches of an encoder: stages them, runs ForwardPass on the device, pools, or projects images. The ranks of a
// divided model read one staged batch, or each its own where their devices have memory of their own; rank 0 does what
// follows the layers. The interface is what the engine sees, so that tests can stand in for the device. Thread rule:
// the engine thread only.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "engine/encoder/ragged_batch.h"
#include "engine/layers/forward_pass.h"
#include "engine/model/model.h"
#include "engine/parallel/device_links.h"
#include "engine/parallel/rank_team.h"
#include "engine/request/options.h"
#include "engine/runtime/memory_plan.h"
#include "engine/runtime/profiles.h"
#include "engine/runtime/step_buffers.h"

namespace dunlin::engine {

class EncoderRuntime {
 public:
  virtual ~EncoderRuntime() = default;
  // Fills the vector and `finite` of every input. An error means the device can no longer be trusted; the engine stops.
  virtual absl::Status Run(EncodeBatch* batch) = 0;
  // What the device has given out, to all its models. Any thread.
  virtual kernels::DeviceMemory device_memory() const { return {}; }
  // As Runtime's.
  virtual uint64_t progress() const { return 0; }
  virtual int32_t rank_at_fault() const { return -1; }
};

class ModelEncoderRuntime : public EncoderRuntime {
 public:
  // Plans and allocates all memory (PlanEncoderRanks and StepBuffers::Allocate say which errors); Run allocates
  // nothing. FAILED_PRECONDITION for a decoder, for an FP8 recipe but per_token, and for ranks that cannot be linked;
  // RESOURCE_EXHAUSTED without threads for them. model outlives the runtime.
  static absl::StatusOr<std::unique_ptr<ModelEncoderRuntime>> Create(const Model* model, const EngineOptions& options);
  ~ModelEncoderRuntime() override;

  // Before the first batch: one input in every precision, as long as there may be, where the device chooses algorithms
  // by time (Tuning). *notice: what a log should say, else left alone. Errors: Run's.
  absl::Status WarmUp(const ProfileTable& profiles, std::string* notice);

  absl::Status Run(EncodeBatch* batch) override;
  kernels::DeviceMemory device_memory() const override { return model_->device_memory(); }
  uint64_t progress() const override { return ProgressOf(buffers_); }
  int32_t rank_at_fault() const override { return ranks_.team == nullptr ? -1 : ranks_.team->group()->rank_at_fault(); }
  // What the last batch's vectors were pooled from, in host memory: input i's rows of hidden_dim begin at first_row(i),
  // one for each of its tokens, or, where every input takes but one, that.
  absl::StatusOr<const float*> HostHidden() {
    return HostRows(hidden_, rows().num_rows(), model_->config().hidden_dim);
  }
  int32_t first_row(size_t input) const { return rows().first_row(input); }
  // Of all ranks.
  const MemoryPlan& memory_plan() const { return plan_; }

 private:
  using RankBuffers = std::vector<std::unique_ptr<StepBuffers>>;
  // The threads and links of the ranks of a divided model.
  struct Ranks {
    std::unique_ptr<RankTeam> team;      // null: the model is not divided
    std::unique_ptr<DeviceLinks> links;  // of linked ranks; else null
  };
  ModelEncoderRuntime(const Model* model, MemoryPlan plan, Ranks ranks, RankBuffers buffers,
                      const std::vector<float>& patch_positions);
  static absl::StatusOr<Ranks> StartRanks(const Model& model);
  static absl::StatusOr<RankBuffers> AllocateBuffers(const Model& model, const std::vector<MemoryPlan>& plans,
                                                     const Ranks& ranks);
  // A batch, in the memory of each rank that has its own.
  absl::Status Upload(const EncodeBatch& batch);
  // Rank 0's, by which all of them run.
  const RaggedBatch& rows() const { return rows_.front(); }
  ForwardPass PassOf(int32_t rank, const ExecutionProfile& profile) const;
  // Of every rank, where `first` is rank 0's.
  absl::Status RunLayers(const ExecutionProfile& profile, ForwardPass* first);
  absl::Status Classify(ForwardPass* pass, EncodeBatch* batch);
  // Of images: the rows of each.
  absl::Status Project(ForwardPass* pass, EncodeBatch* batch);
  absl::Status Warm(const ExecutionProfile& profile);
  // Replaces the pass's hidden states by the mean of each input's, row i for input i.
  absl::Status MeansToDevice(ForwardPass* pass, const EncodeBatch& batch);
  // Rows of the last batch's result, [num_rows, columns], in host memory; num_rows <= rows().num_rows(), columns <=
  // hidden_dim, or those that RunProjector gives.
  absl::StatusOr<const float*> HostRows(const float* rows, int32_t num_rows, int32_t columns);

  const Model* model_;
  const MemoryPlan plan_;
  const std::vector<kernels::KvShape> kv_shapes_;  // of the undivided model
  Ranks ranks_;
  RankBuffers buffers_;             // rank 0's first, which has what the others share
  std::vector<RaggedBatch> rows_;   // of linked ranks each, else of rank 0
  const float* hidden_ = nullptr;   // of the last batch, on the device
  std::vector<float> host_hidden_;  // empty on the CPU
  std::vector<double> sums_;        // [hidden_dim]
  std::vector<float> means_;        // [max_sequences, hidden_dim] with ClassifierSpec::mean
};

}  // namespace dunlin::engine

// SPDX-License-Identifier: Apache-2.0
// What adapters add to the products of a layer's experts. The rows of each expert are known on the device alone, so
// that the host waits for the routing of a layer whose experts an adapter of the batch changes; the rows of each
// (adapter, expert) then go through the same products as those of any other projection, with the same bits alone.
// Thread rule: one pass at a time.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "engine/layers/adapter_rows.h"
#include "engine/layers/expert_buffers.h"
#include "engine/layers/layer_context.h"

namespace dunlin::engine {

class ExpertAdapters {
 public:
  // Room for batches of max_tokens rows of max_adapters adapters; nothing is allocated after that.
  void Reserve(const ModelConfig& config, int32_t max_tokens, int32_t max_adapters);

  // After routing, before Add: which rows of all experts (ExpertBuffers::rows) are whose. Waits for the device.
  bool Collect(LayerContext* context, const ExpertBuffers& buffers);
  // Adds what the adapters add to `projection` of the experts: of the rows of all experts, [*, columns], to out.
  bool Add(LayerContext* context, Projection projection, const float* in, int32_t columns, const Columns& out);

 private:
  // The rows of one expert whose batch rows have one adapter, ascending.
  struct Part {
    const Adapter* adapter;
    int32_t expert;
    const int32_t* rows;
    int32_t num_rows;
  };
  bool Read(LayerContext* context, const ExpertBuffers& buffers);
  void MarkUses(const LayerContext& context);
  void Divide(int32_t expert);
  bool Flush(LayerContext* context, kernels::AddLowRankParams* params);

  std::span<const AdapterRows::Use> uses_;
  std::vector<kernels::ExpertRows> experts_;  // [num_experts]
  std::vector<int32_t> batch_rows_;           // [rows of all experts]
  std::vector<int32_t> row_uses_;             // of each batch row the index of its use, or -1
  std::vector<int32_t> rows_;                 // of the parts
  std::vector<int32_t> ends_;                 // of each use
  std::vector<Part> parts_;
  std::vector<kernels::LowRankUse> list_;
};

}  // namespace dunlin::engine

// SPDX-License-Identifier: Apache-2.0
// What the layers of one pass share: the model's config, the batch, the device and its memory, the rows that are being
// computed, and the first failure. Layers hold a pointer to it and live no longer. Thread rule: the engine thread that
// runs the pass.
#pragma once

#include <array>
#include <cstdint>

#include "absl/status/status.h"
#include "engine/layers/fp8_scaling.h"
#include "engine/layers/input_observer.h"
#include "engine/layers/layer_buffers.h"
#include "engine/layers/layer_rows.h"
#include "engine/layers/pass_inputs.h"
#include "engine/model/model.h"
#include "engine/model/spec/attention_shape.h"
#include "engine/model/spec/model_config.h"
#include "engine/request/types.h"
#include "kernels/api/device.h"

namespace dunlin::engine {

struct LayerContext {
  const ModelConfig& config;
  const PrecisionWeights& weights;
  const ExecutionProfile profile;
  const PassInputs inputs;
  const LayerBuffers& buffers;
  const Fp8Scaling* const scaling;  // null: a scale per row
  InputObserver* const observer;    // sees the input of every linear operation; null where not eager
  const std::array<kernels::KvLayout, kMaxKvShapes> kv_layouts;  // by KvPlace::shape

  LayerRows rows{};                   // of the running layer
  int32_t layer = -1;                 // the running layer; -1 outside the layers
  kernels::Activation activation{};   // the input of the next GEMM, in buffers.activation or where a GEMM left it
  const float* input_rows = nullptr;  // the same before it was rounded, [rows.count, K], where that GEMM is adapted
  uint32_t num_gathers = 0;           // of this pass: GatherColumns
  const char* failed_op = nullptr;
  kernels::KernelStatus failed_status = kernels::KernelStatus::kOk;

  // One device operation per step instead of fused ones, with the same bits.
  bool eager() const { return buffers.unfused != nullptr; }
  // One rank of several: it has columns of what layers compute.
  bool divided() const { return buffers.ranks != nullptr; }
  // One of those whose rows are copies, in memory of its own.
  bool linked() const { return buffers.links != nullptr; }
  // In the running layer: without norms before the attention and the MLP, whose inputs are the rows themselves.
  bool norms_inside() const { return config.norm.placement_of(layer) == NormPlacement::kPostInside; }
  bool post_norm() const { return config.norm.placement == NormPlacement::kPost; }

  // Where the running layer's keys and values lie.
  const KvPlace& kv_place() const { return buffers.kv_places[static_cast<size_t>(layer)]; }
  // Where its entries lie (AttentionSpec::compressed).
  const KvPlace& entry_place() const { return buffers.kv_places[static_cast<size_t>(config.all_layers() + layer)]; }
  const kernels::KvLayout& kv_layout() const { return kv_layouts[static_cast<size_t>(kv_place().shape)]; }

  // False after a failure, which it records; the steps of every layer return what it returns. op: of the message.
  bool Check(kernels::KernelStatus status, const char* op);
  // Runs an operation of the device.
  template <typename Params>
  bool Run(kernels::KernelStatus (*kernels::DeviceOps::*operation)(kernels::DeviceContext*, const Params&),
           const Params& params, const char* op) {
    return Check((buffers.device->ops->*operation)(buffers.device->context, params), op);
  }
  bool Fuses(const kernels::GemmParams& params) const {
    return !eager() && buffers.device->ops->gemm_fuses(buffers.device->context, params);
  }
  // INTERNAL, naming the operation and the layer that failed.
  absl::Status Failure() const;
};

// Copies the rows of the running layer to `out`, [rows.count, hidden_dim] in device memory. op: of the message.
bool CopyHidden(LayerContext* context, const char* op, float* out);

// Of a profile's precision, for LayerContext::kv_layouts.
std::array<kernels::KvLayout, kMaxKvShapes> KvLayoutsOf(const LayerBuffers& buffers, Precision precision);

// Some columns of rows that are `stride` floats apart.
struct Columns {
  float* data;
  int64_t stride;
};

}  // namespace dunlin::engine

// SPDX-License-Identifier: Apache-2.0
// The fake device's products of several matrices.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "tests/kernels/loader/fake_context.h"
#include "tests/kernels/loader/fake_translation.h"

namespace dunlin::kernels {

// A deferred call, with the host memory that it points to; `out` is its GEMM input or its scratch.
template <typename Params>
struct HeldGroups {
  Params params;
  std::vector<BiasedWeight> weights;
  Activation in;
  Activation out;

  void HoldWeights(Translation& to_host, int32_t count) {
    weights.assign(params.weights, params.weights + count);
    for (BiasedWeight& weight : weights) to_host(&weight.weight.data, &weight.bias);
    params.weights = weights.data();
  }
};

inline KernelStatus GroupedGemm(DeviceContext* context, const GroupedGemmParams& params) {
  if (Of(context).failed) return KernelStatus::kDeviceError;
  if (params.in == nullptr || params.weights == nullptr) return KernelStatus::kInvalidArgument;
  auto held = std::make_shared<HeldGroups<GroupedGemmParams>>();
  held->params = params;
  held->in = *params.in;
  held->params.in = &held->in;
  Translation to_host;
  held->HoldWeights(to_host, params.num_groups);
  to_host(&held->in.data);
  to_host(&held->params.groups);
  to_host(&held->params.out);
  if (params.next != nullptr) {
    held->out = *params.next;
    held->params.next = &held->out;
    to_host(&held->out.data);
  }
  if (!to_host.valid()) return KernelStatus::kInvalidArgument;
  Of(context).stream.Add([held] { return Cpu().ops->grouped_gemm(Cpu().context, held->params); });
  return KernelStatus::kOk;
}

inline KernelStatus BatchedGemm(DeviceContext* context, const BatchedGemmParams& params) {
  if (Of(context).failed) return KernelStatus::kDeviceError;
  if (params.rounded == nullptr || params.weights == nullptr) return KernelStatus::kInvalidArgument;
  auto held = std::make_shared<HeldGroups<BatchedGemmParams>>();
  held->params = params;
  held->out = *params.rounded;
  held->params.rounded = &held->out;
  Translation to_host;
  held->HoldWeights(to_host, params.num_batches);
  to_host(&held->out.data);
  to_host(&held->params.in);
  to_host(&held->params.out);
  if (!to_host.valid()) return KernelStatus::kInvalidArgument;
  Of(context).stream.Add([held] { return Cpu().ops->batched_gemm(Cpu().context, held->params); });
  return KernelStatus::kOk;
}

// As on CUDA: adapters are refused with the reason. Their parameters have device pointers within lists.
inline bool SupportsModel(const ModelTraits& traits, std::vector<std::string>* reasons) {
  if (traits.adapters && reasons != nullptr) reasons->emplace_back("low-rank adapters");
  return !traits.adapters;
}
inline KernelStatus AddLowRank(DeviceContext* /*context*/, const AddLowRankParams& /*params*/) {
  return KernelStatus::kUnsupported;
}

}  // namespace dunlin::kernels

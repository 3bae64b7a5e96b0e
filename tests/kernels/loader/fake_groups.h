// SPDX-License-Identifier: Apache-2.0
// The fake device's products of several matrices, and of adapters.
#pragma once

#include <cstdint>
#include <memory>
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

// A deferred call of adapters' products: its lists are host memory, the matrices that they name the device's.
struct HeldLowRank {
  AddLowRankParams params;
  std::vector<LowRankUse> uses;
  std::vector<std::vector<LowRankPair>> pairs;
  std::vector<std::vector<int32_t>> rows;

  void HoldUses(Translation& to_host) {
    uses.assign(params.uses, params.uses + params.num_uses);
    for (LowRankUse& use : uses) {
      std::vector<LowRankPair>& own = pairs.emplace_back(use.pairs, use.pairs + use.num_pairs);
      for (LowRankPair& pair : own) to_host(&pair.down, &pair.up);
      use.pairs = own.data();
      use.rows = rows.emplace_back(use.rows, use.rows + use.num_rows).data();
    }
    params.uses = uses.data();
  }
};

inline KernelStatus AddLowRank(DeviceContext* context, const AddLowRankParams& params) {
  if (Of(context).failed) return KernelStatus::kDeviceError;
  if (params.num_uses == 0) return KernelStatus::kOk;
  auto held = std::make_shared<HeldLowRank>();
  held->params = params;
  Translation to_host;
  held->HoldUses(to_host);
  to_host(&held->params.in);
  to_host(&held->params.out, &held->params.scratch);
  if (!to_host.valid()) return KernelStatus::kInvalidArgument;
  Of(context).stream.Add([held] { return Cpu().ops->add_low_rank(Cpu().context, held->params); });
  return KernelStatus::kOk;
}

}  // namespace dunlin::kernels

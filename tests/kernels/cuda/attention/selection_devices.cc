// SPDX-License-Identifier: Apache-2.0
// The CUDA device's sparse attention on the host: the lanes of its rows, attention by its block programs.
#include "tests/kernels/attention/selection_devices.h"

#include <algorithm>
#include <cstdlib>

#include "kernels/cuda/attention/kernel.h"
#include "kernels/cuda/attention/key_selection.h"
#include "kernels/cuda/attention/support.h"
#include "kernels/cuda/ops/kv_store.h"
#include "tests/kernels/cuda/attention/host_attention.h"
#include "tests/kernels/cuda/device/thread_lanes.h"

namespace dunlin::kernels {
namespace cuda {
namespace {

constexpr DeviceShape kHopperOfSelection{132, 227 * 1024, 90};
constexpr int32_t kLanesMax = 8;

struct HostSelection {
  int32_t lanes;
};
HostSelection& SelectionOf(DeviceContext* context) {
  return *reinterpret_cast<HostSelection*>(context);
}

KernelStatus StoreKv(DeviceContext* /*context*/, const RotateAndStoreKvParams& params) {
  for (int32_t token = 0; token < params.num_tokens; ++token) {
    for (int32_t head = 0; head < FusedHeads(params); ++head) RotateAndStoreHead(SingleLane(), params, token, head);
  }
  return KernelStatus::kOk;
}

KernelStatus StoreIndex(DeviceContext* context, const StoreIndexKeysParams& params) {
  if (!Valid(params)) return KernelStatus::kInvalidArgument;
  for (int32_t token = 0; token < params.num_tokens; ++token) {
    for (int32_t head = 0; head <= params.num_heads; ++head) {
      RunLanes(SelectionOf(context).lanes,
               [&](const ThreadLanes& lanes) { StoreIndexRow(lanes, params, token, head); });
    }
  }
  return KernelStatus::kOk;
}

KernelStatus Select(DeviceContext* context, const SelectKeysParams& params) {
  if (!Valid(params)) return KernelStatus::kInvalidArgument;
  for (int32_t query = 0; query < params.num_rows; ++query) {
    const IndexRow row = IndexRowOf(params, query);
    float* scores = params.scores + int64_t{query % kSelectionRows} * params.max_kv_tokens;
    for (int32_t key = 0; NeedsScores(params, row) && key < row.limit; ++key) {
      scores[key] = IndexScore(params, row, query, key);
    }
    ChoiceMemory<kLanesMax> memory;
    RunLanes(SelectionOf(context).lanes, [&](const ThreadLanes& lanes) {
      ChooseKeys(lanes, scores, row.limit, params.top_k, params.selected + query * params.selected_stride, &memory);
    });
  }
  return KernelStatus::kOk;
}

KernelStatus Attend(DeviceContext* /*context*/, const PagedAttentionParams& params) {
  testing::RunPagedOnHost(params, {.traits = TraitsOf(params),
                                   .max_query_tokens = params.max_query_tokens,
                                   .max_kv_tokens = params.max_kv_tokens,
                                   .selected_keys = params.selection.bits == nullptr ? 0 : params.selection.most});
  return KernelStatus::kOk;
}

constexpr DeviceOps SelectionOps() {
  DeviceOps ops{};
  ops.kind = DeviceKind::kCuda;
  ops.allocate = [](kernels::DeviceContext*, size_t bytes) { return std::aligned_alloc(64, (bytes + 63) / 64 * 64); };
  ops.release = [](kernels::DeviceContext*, void* memory, size_t) { std::free(memory); };
  ops.rotate_and_store_kv = StoreKv;
  ops.store_index_keys = StoreIndex;
  ops.select_keys = Select;
  ops.supports_attention = [](const kernels::DeviceContext*, AttentionBackend backend, const AttentionTraits& traits,
                              std::vector<std::string>* reasons) {
    return SupportsAttentionOn(kHopperOfSelection, backend, traits, reasons);
  };
  ops.paged_attention_workspace = [](const kernels::DeviceContext*, AttentionBackend, const PagedAttentionPlan&) {
    return size_t{0};  // Attend has its own
  };
  ops.paged_attention = Attend;
  return ops;
}
constexpr DeviceOps kSelectionOps = SelectionOps();

}  // namespace
}  // namespace cuda

std::vector<std::string> SelectionDeviceNames() {
  return {"cuda_host"};
}

std::unique_ptr<Device> OpenSelectionDevice(const std::string& /*name*/, int division) {
  auto device = std::make_unique<Device>();
  device->ops = &cuda::kSelectionOps;
  device->context = reinterpret_cast<DeviceContext*>(new cuda::HostSelection{std::min(division, cuda::kLanesMax)});
  device->close = [](DeviceContext* context) { delete &cuda::SelectionOf(context); };
  return device;
}

}  // namespace dunlin::kernels

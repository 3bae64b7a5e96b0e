// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>

#include "kernels/cuda/attention/flash/sm90/wgmma_flash.h"

namespace dunlin::kernels::cuda {
namespace {

constexpr int64_t kMapAlignment = 16;  // of addresses and strides of tensor maps, bytes

int32_t BoxKeysOf(const AttentionCall& call, int32_t tile_keys) {
  return IsDense(call) ? tile_keys : std::min(tile_keys, 1 << call.page_shift);
}

bool Mappable(const AttentionCall& call, const KvTensor& tensor) {
  const int64_t outer = IsDense(call) ? tensor.sequence_bytes : call.page_bytes;
  return tensor.whole_pieces && tensor.row_bytes % kMapAlignment == 0 && tensor.head_bytes % kMapAlignment == 0 &&
         outer % kMapAlignment == 0 && tensor.row_bytes > 0 && tensor.head_bytes > 0 && outer > 0;
}

// Whether element `start` of every row, a multiple of `elements`, is aligned to as many elements.
template <typename Byte>
bool Aligned(const RowTensor<Byte>& tensor, int64_t elements, int64_t element_bytes) {
  return reinterpret_cast<uintptr_t>(tensor.data) % static_cast<uintptr_t>(elements * element_bytes) == 0 &&
         tensor.sequence_stride % elements == 0 && tensor.token_stride % elements == 0 &&
         tensor.head_stride % elements == 0;
}

// A plan's own data.
struct WgmmaFlashOwn {
  float* totals;
  int32_t tasks;
};

// Blocks of a launch that walk through several splits, one for each multiprocessor; 0: none does.
size_t BlocksWithTotals(const BlockGeometry& geometry, const AttentionCall& call, const DeviceShape& device) {
  if (call.max_kv_tokens <= geometry.part_keys) return 0;
  return static_cast<size_t>(std::min<int64_t>(TasksOf(geometry, call), device.multiprocessors));
}

// What TMA can load.
bool Loadable(const AttentionCall& call) {
  // A row whose keys are all chosen must not show whether a longer neighbour made the call choose.
  return call.selection.most == 0 && call.max_kv_tokens > 0 && Mappable(call, call.keys) &&
         Mappable(call, call.values) && (IsDense(call) || 1 << call.page_shift >= kWgmmaMinPageTokens);
}

// WgmmaFlashCall's, as few roundings as there may be.
void SetCap(const AttentionCall& call, WgmmaFlashCall* flash) {
  if (call.softcap <= 0.0F) return;
  constexpr double kLargest = std::numeric_limits<float>::max();
  const double softcap = call.softcap;
  flash->cap = static_cast<float>(softcap * std::numbers::log2e);
  const double factor = 2.0 * std::numbers::log2e * std::fabs(double{call.scale}) / softcap;
  flash->cap_factor = static_cast<float>(std::min(factor, kLargest));
}

}  // namespace

bool TakesWgmmaFlash(const AttentionCall& call) {
  return !call.adjusts() && Loadable(call);
}

bool TakesWgmmaAdjusted(const AttentionCall& call) {
  AttentionCall rest = call;
  rest.softcap = 0.0F;
  rest.alibi_slopes = nullptr;
  return call.adjusts() && call.softcap <= kWgmmaSoftcapMax && TakesWgmmaFlash(rest);
}

bool TakesWgmmaLatent(const AttentionCall& call) {
  constexpr int32_t kDim = WgmmaLatentShape<Bf16Format>::kDim;
  constexpr int32_t kValueDim = WgmmaLatentShape<Bf16Format>::kValueDim;
  return TakesWgmmaFlash(call) && call.keys.dim == kDim && call.values.dim == kValueDim &&
         call.values.data == call.keys.data + (kDim - kValueDim) * SizeOf(call.keys.dtype) &&
         call.values.row_bytes == call.keys.row_bytes && call.values.head_bytes == call.keys.head_bytes;
}

bool DivideWgmmaFlash(const BlockGeometry& geometry, const AttentionCall& call, const DeviceShape& device,
                      void* workspace, size_t workspace_bytes, LaunchPlan* plan) {
  PlanGrid(geometry, call, plan);
  PlanParts(geometry, call, device, workspace, workspace_bytes, plan);
  plan->SetOwn(WgmmaFlashOwn{.totals = nullptr, .tasks = static_cast<int32_t>(plan->blocks)});
  return true;
}

size_t PersistentWgmmaFlash::PagedBytes(const BlockGeometry& geometry, const PagedAttentionPlan& plan,
                                        const DeviceShape& device) {
  const int64_t totals = plan.max_kv_tokens > geometry.part_keys ? device.multiprocessors : 0;
  return std::max(PagedPartBytes(geometry, plan, device), static_cast<size_t>(totals) * kWgmmaTotalBytes);
}

size_t PersistentWgmmaFlash::DenseBytes(const BlockGeometry& geometry, const AttentionCall& call,
                                        const DeviceShape& device) {
  const size_t parts = PartBytes(geometry, call, device);
  return parts > 0 ? parts : BlocksWithTotals(geometry, call, device) * kWgmmaTotalBytes;
}

bool PersistentWgmmaFlash::Divide(const BlockGeometry& geometry, const AttentionCall& call, const DeviceShape& device,
                                  void* workspace, size_t workspace_bytes, LaunchPlan* plan) {
  PlanGrid(geometry, call, plan);
  const bool in_parts = PlanParts(geometry, call, device, workspace, workspace_bytes, plan);
  WgmmaFlashOwn own{.totals = nullptr, .tasks = static_cast<int32_t>(plan->blocks)};
  if (plan->blocks > kWgmmaTasksMax) {  // whoever launches it refuses it
    plan->blocks = std::numeric_limits<int64_t>::max();
    return true;
  }
  plan->blocks = std::min<int64_t>(plan->blocks, device.multiprocessors);
  if (!in_parts && BlocksWithTotals(geometry, call, device) > 0) {
    plan->blocks = std::min(plan->blocks, static_cast<int64_t>(workspace_bytes / kWgmmaTotalBytes));
    own.totals = static_cast<float*>(workspace);
  }
  plan->SetOwn(own);
  return plan->blocks > 0;
}

WgmmaFlashCall WgmmaFlashCallOf(const AttentionCall& call, const LaunchPlan& plan, int32_t tile_keys) {
  const auto own = plan.OwnAs<WgmmaFlashOwn>();
  WgmmaFlashCall flash{};
  flash.call = call;
  flash.parts = plan.parts;
  flash.totals = own.totals;
  flash.tasks = own.tasks;
  flash.row_blocks = plan.row_blocks;
  flash.split_tiles = plan.part_keys / tile_keys;
  flash.box_keys = BoxKeysOf(call, tile_keys);
  flash.whole_queries = call.query.dtype == DType::kF32 && Aligned(call.query, 4, 4);
  flash.paired_outputs = Aligned(call.out, 2, call.out.dtype == DType::kF32 ? 4 : 2);
  SetCap(call, &flash);
  return flash;
}

// Strides of dimensions of one element must be valid, too.
TensorShape WgmmaFlashMapOf(const AttentionCall& call, const KvTensor& tensor, int32_t box_keys) {
  const bool dense = IsDense(call);
  const bool codes = tensor.dtype == DType::kF8E4M3;  // not swizzled: threads read them
  const int64_t rows = dense ? call.dense_kv_len : int64_t{1} << call.page_shift;
  const int64_t outer = dense ? tensor.sequence_bytes : call.page_bytes;
  return {
      .data = tensor.data,
      .element = codes                         ? TensorElement::kByte
                 : tensor.dtype == DType::kF16 ? TensorElement::kFp16
                                               : TensorElement::kBf16,
      .swizzled = !codes,
      .rank = 4,
      .dims = {static_cast<uint64_t>(tensor.dim), static_cast<uint64_t>(rows), static_cast<uint64_t>(call.num_kv_heads),
               static_cast<uint64_t>(dense ? call.num_sequences : kWgmmaPagesEnd)},
      .strides = {static_cast<uint64_t>(tensor.row_bytes), static_cast<uint64_t>(tensor.head_bytes),
                  static_cast<uint64_t>(outer)},
      .box = {kSwizzleRowBytes / static_cast<uint32_t>(SizeOf(tensor.dtype)), static_cast<uint32_t>(box_keys), 1, 1}};
}

}  // namespace dunlin::kernels::cuda

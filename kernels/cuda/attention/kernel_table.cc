// SPDX-License-Identifier: Apache-2.0
// The attention kernels, one row each, and the choice among them.
#include <algorithm>
#include <array>

#include "kernels/cuda/attention/efficient/efficient.h"
#include "kernels/cuda/attention/flash/sm80/flash.h"
#include "kernels/cuda/attention/flash/sm90/wgmma_flash.h"
#include "kernels/cuda/attention/gathered_keys.h"
#include "kernels/cuda/attention/kernel.h"
#include "kernels/cuda/attention/math/math.h"

namespace dunlin::kernels::cuda {
namespace {

constexpr unsigned kBf16OrCodes = Bit(DType::kBF16) | Bit(DType::kF8E4M3);
constexpr unsigned kFp16 = Bit(DType::kF16);

constexpr auto WgmmaKernels(AttentionBackend backend) {
#define DUNLIN_WGMMA_ROW(...) WgmmaFlashKernel<__VA_ARGS__>(backend),
  return std::array{DUNLIN_ALL_WGMMA_SHAPES(DUNLIN_WGMMA_ROW)};
#undef DUNLIN_WGMMA_ROW
}

// Of two rows that take a call the first is launched: those of fewer dims, then those of more stages.
constexpr std::array kGeneralFlashKernels = {
    FlashKernel<Bf16Format, 1, 2>(kBf16OrCodes),
    FlashKernel<Bf16Format, 2, 2>(kBf16OrCodes),
    FlashKernel<Bf16Format, 4, 2>(kBf16OrCodes),
    FlashKernel<Bf16Format, 4, 1>(kBf16OrCodes),
    FlashKernel<Bf16Format, 3, 1, true>(kBf16OrCodes),
    FlashKernel<Fp16Format, 1, 2>(kFp16),
    FlashKernel<Fp16Format, 2, 2>(kFp16),
    FlashKernel<Fp16Format, 4, 2>(kFp16),
    FlashKernel<Fp16Format, 4, 1>(kFp16),
    FlashKernel<Fp16Format, 3, 1, true>(kFp16),
};

constexpr std::array kGeneralEfficientKernels = {
    EfficientKernel<TensorProducts<Bf16Format>>(Bit(DType::kBF16)),
    EfficientKernel<TensorProducts<Fp16Format>>(kFp16),
    EfficientKernel<Fp32Products>(Bit(DType::kF32) | Bit(DType::kF8E4M3)),
};

template <size_t... kCounts>
constexpr auto Joined(const std::array<AttentionKernel, kCounts>&... parts) {
  std::array<AttentionKernel, (kCounts + ...)> rows{};
  size_t count = 0;
  (std::ranges::for_each(parts, [&](const AttentionKernel& row) { rows[count++] = row; }), ...);
  return rows;
}

constexpr std::array kKernels =
    Joined(std::array{kMathKernel}, WgmmaKernels(AttentionBackend::kFlash), kGeneralFlashKernels,
           WgmmaKernels(AttentionBackend::kEfficient), kGeneralEfficientKernels);

// A kernel whose keys are divided among blocks needs the merge of the parts.
static_assert(std::ranges::all_of(kKernels, [](const AttentionKernel& kernel) {
  return kernel.phases != 0 && kernel.dtypes != 0 && kernel.sm_min <= kernel.sm_max && kernel.geometry.rows > 0 &&
         (kernel.geometry.part_keys == 0 || kernel.merge != nullptr);
}));

// Latent rows wider than other heads are taken where their values are whole tiles of keys.
bool TakesDims(const AttentionLimits& limits, const AttentionTraits& traits) {
  const int32_t dim = std::max(traits.head_dim, traits.v_head_dim);
  const bool whole_tiles = traits.values_in_keys && (traits.head_dim - traits.v_head_dim) % kTileDims == 0;
  return dim <= limits.max_head_dim || (whole_tiles && dim <= limits.max_latent_dim);
}

bool Takes(const AttentionKernel& kernel, const AttentionTraits& traits) {
  const AttentionLimits& limits = kernel.limits;
  return (kernel.dtypes & Bit(traits.dtype)) != 0 && TakesDims(limits, traits) &&
         std::max(traits.head_dim, traits.v_head_dim) > kernel.min_head_dim && (!traits.bias || limits.bias) &&
         (!traits.mask || limits.mask);
}

}  // namespace

std::span<const AttentionKernel> AttentionKernels() {
  return kKernels;
}

bool RunsOn(const AttentionKernel& kernel, const DeviceShape& device) {
  return kernel.sm_min <= device.sm_version && device.sm_version <= kernel.sm_max &&
         kernel.geometry.shared_bytes <= device.block_shared_bytes &&
         (kernel.check_bit & device.left_out_attention) == 0;
}

const AttentionKernel* FindKernel(std::span<const AttentionKernel> rows, const DeviceShape& device,
                                  AttentionBackend backend, AttentionPhase phase, const AttentionTraits& traits,
                                  const AttentionCall* call) {
  const auto found = std::ranges::find_if(rows, [&](const AttentionKernel& row) {
    return row.backend == backend && (row.phases & Bit(phase)) != 0 && RunsOn(row, device) && Takes(row, traits) &&
           (call == nullptr || row.takes == nullptr || row.takes(*call));
  });
  return found == rows.end() ? nullptr : &*found;
}

size_t PagedWorkspaceBytes(const DeviceShape& device, AttentionBackend backend, const PagedAttentionPlan& plan) {
  size_t bytes = 0;
  for (const AttentionPhase phase : kAttentionPhases) {
    std::span<const AttentionKernel> rows = AttentionKernels();
    while (const AttentionKernel* kernel = FindKernel(rows, device, backend, phase, plan.traits)) {
      bytes = std::max(bytes, kernel->plan.paged_workspace(kernel->geometry, plan, device));
      if (kernel->takes == nullptr) break;
      rows = rows.subspan(static_cast<size_t>(kernel - rows.data()) + 1);
    }
  }
  if (plan.selected_keys == 0) return bytes;
  const size_t gathered = PagedWorkspaceBytes(device, backend, GatheredPlanOf(plan));
  return std::max(bytes, GatheredListBytes(plan.selected_keys) + gathered);
}

}  // namespace dunlin::kernels::cuda

// SPDX-License-Identifier: Apache-2.0
// The rows of FLASH and EFFICIENT by wgmma and TMA, for compute capability 9.0: two warpgroups that multiply in
// prefill, one in decode, with the same bits; of more than 256 dims one kernel for both. Both backends are the same
// kernels; EFFICIENT merges after fewer keys. Keys and values in FP16, BF16 or E4M3, heads of up to 64, 128, 256 or 512
// dims that are whole 16-byte pieces, and latent rows of 576 in FP16 or BF16; windows and sinks; soft caps and ALiBi by
// kernels of their own, for up to 256 dims. Biases and masks are for the rows behind them.
#pragma once

#include "kernels/cuda/attention/flash/sm90/wgmma_flash_call.h"
#include "kernels/cuda/attention/kernel.h"
#include "kernels/cuda/attention/merge.h"
#include "kernels/cuda/block/tensor_core.h"

namespace dunlin::kernels::cuda {

bool TakesWgmmaFlash(const AttentionCall& call);
// Calls with a soft cap of at most kWgmmaSoftcapMax, slopes, or both, and nothing else that adjusts scores.
bool TakesWgmmaAdjusted(const AttentionCall& call);
// Rows of exactly the shape's dims, whose values lie in the keys.
bool TakesWgmmaLatent(const AttentionCall& call);
bool DivideWgmmaFlash(const BlockGeometry& geometry, const AttentionCall& call, const DeviceShape& device,
                      void* workspace, size_t workspace_bytes, LaunchPlan* plan);
// Plan functions of shapes whose blocks take several tasks: without memory for the totals of a single block a call of
// several splits can't be divided.
struct PersistentWgmmaFlash {
  static size_t PagedBytes(const BlockGeometry& geometry, const PagedAttentionPlan& plan, const DeviceShape& device);
  static size_t DenseBytes(const BlockGeometry& geometry, const AttentionCall& call, const DeviceShape& device);
  static bool Divide(const BlockGeometry& geometry, const AttentionCall& call, const DeviceShape& device,
                     void* workspace, size_t workspace_bytes, LaunchPlan* plan);
};
// A launch without its tensor maps, and the shapes of these.
WgmmaFlashCall WgmmaFlashCallOf(const AttentionCall& call, const LaunchPlan& plan, int32_t tile_keys);
TensorShape WgmmaFlashMapOf(const AttentionCall& call, const KvTensor& tensor, int32_t box_keys);

// Shape: WgmmaFlashShape. Defined in wgmma_flash_launch.cuh, instantiated in one file per format. A call whose tensor
// maps the driver refuses becomes a launch without blocks, whose error the caller finds.
template <typename Shape>
int PrepareWgmmaFlash();
template <typename Shape>
void LaunchWgmmaFlash(const AttentionCall& call, const LaunchPlan& plan, Stream stream);
// Instantiates both, for a device or for the host's tests.
#define DUNLIN_WGMMA_FLASH_LAUNCHER(...)         \
  template int PrepareWgmmaFlash<__VA_ARGS__>(); \
  template void LaunchWgmmaFlash<__VA_ARGS__>(const AttentionCall&, const LaunchPlan&, Stream);

template <typename Format, int kDim, bool kCodes = false>
using WgmmaFlashPrefill = WgmmaFlashShape<Format, kDim, 2, kCodes>;
template <typename Format, int kDim, bool kCodes = false>
using WgmmaFlashDecode = WgmmaFlashShape<Format, kDim, 1, kCodes>;
template <typename Shape>
using WgmmaPlain = Shape;

// X(shape) for every kernel, in the order of their rows: those that a source instantiates, and all of them. Of two rows
// that take a call the first is launched, that of fewer dims.
// NOLINTBEGIN(bugprone-macro-parentheses): of templates' names and arguments
#define DUNLIN_WGMMA_FLASH_SHAPES(X, Scores, Format, kOfCodes) \
  X(Scores<WgmmaFlashPrefill<Format, 64, kOfCodes>>)           \
  X(Scores<WgmmaFlashDecode<Format, 64, kOfCodes>>)            \
  X(Scores<WgmmaFlashPrefill<Format, 128, kOfCodes>>)          \
  X(Scores<WgmmaFlashDecode<Format, 128, kOfCodes>>)           \
  X(Scores<WgmmaFlashPrefill<Format, 256, kOfCodes>>)          \
  X(Scores<WgmmaFlashDecode<Format, 256, kOfCodes>>)
// NOLINTEND(bugprone-macro-parentheses)
#define DUNLIN_WGMMA_WIDE_SHAPES(X) \
  X(WgmmaWideShape<Bf16Format>) X(WgmmaWideShape<Fp16Format>) X(WgmmaWideShape<Bf16Format, true>)
#define DUNLIN_WGMMA_LATENT_SHAPES(X) X(WgmmaLatentShape<Bf16Format>) X(WgmmaLatentShape<Fp16Format>)
#define DUNLIN_ALL_WGMMA_SHAPES(X)                               \
  DUNLIN_WGMMA_FLASH_SHAPES(X, WgmmaPlain, Bf16Format, false)    \
  DUNLIN_WGMMA_FLASH_SHAPES(X, WgmmaPlain, Fp16Format, false)    \
  DUNLIN_WGMMA_FLASH_SHAPES(X, WgmmaPlain, Bf16Format, true)     \
  DUNLIN_WGMMA_FLASH_SHAPES(X, WgmmaAdjusted, Bf16Format, false) \
  DUNLIN_WGMMA_FLASH_SHAPES(X, WgmmaAdjusted, Fp16Format, false) \
  DUNLIN_WGMMA_FLASH_SHAPES(X, WgmmaAdjusted, Bf16Format, true)  \
  DUNLIN_WGMMA_WIDE_SHAPES(X)                                    \
  DUNLIN_WGMMA_LATENT_SHAPES(X)

// 64 heads of a token are all rows of a block, so that a part of latent rows has 132 KB: those of 128 heads of 64
// sequences with 16,384 keys, or of 8 with 131,072.
inline constexpr int64_t kLatentPartBytesMax = int64_t{64} * 2 * 16 * (64 * (512 + 2) * 4);

// Of AttentionKernel::check_bit.
template <typename Shape>
constexpr uint64_t WgmmaFlashCheck(AttentionBackend backend) {
  const int dtype = Shape::kCodes ? 2 : Shape::Format::kDType == DType::kBF16 ? 0 : 1;
  const int bit = Shape::kValuesInKeys ? 9 + dtype
                  : Shape::kSharesRows ? 20 + dtype
                                       : 3 * dtype + Shape::kDim / 128 + (Shape::kAdjusts ? 11 : 0);
  return uint64_t{1} << (backend == AttentionBackend::kFlash ? bit : 23 + bit);
}

template <typename Shape>
constexpr bool (*WgmmaFlashTakes())(const AttentionCall&) {
  return Shape::kValuesInKeys ? TakesWgmmaLatent : Shape::kAdjusts ? TakesWgmmaAdjusted : TakesWgmmaFlash;
}

// backend: FLASH or EFFICIENT.
template <typename Shape>
constexpr AttentionKernel WgmmaFlashKernel(AttentionBackend backend) {
  return {.backend = backend,
          .phases = Shape::kSharesRows
                        ? kAnyPhase
                        : Bit(Shape::kWarpgroups == 1 ? AttentionPhase::kDecode : AttentionPhase::kPrefill),
          .min_head_dim = Shape::kValuesInKeys || Shape::kDim == 64 ? 0 : Shape::kDim / 2,
          .sm_min = 90,
          .sm_max = 90,
          .dtypes = Bit(Shape::kDType),
          .limits = {Shape::kValuesInKeys ? 0 : Shape::kDim, false, false, Shape::kValuesInKeys ? Shape::kDim : 0},
          .geometry = {.threads = Shape::kThreads,
                       .rows = Shape::kRows,
                       .columns = 0,
                       .part_keys = backend == AttentionBackend::kFlash ? kWgmmaSplitKeys : kWgmmaChunkKeys,
                       .stages = Shape::kStages,
                       .shared_bytes = static_cast<int32_t>(Shape::kSharedBytes),
                       .part_bytes_max = Shape::kValuesInKeys ? kLatentPartBytesMax : BlockGeometry{}.part_bytes_max},
          .plan = Shape::kPersistent ? PlanFunctions{PersistentWgmmaFlash::PagedBytes, PersistentWgmmaFlash::DenseBytes,
                                                     PersistentWgmmaFlash::Divide}
                                     : PlanFunctions{PagedPartBytes, PartBytes, DivideWgmmaFlash},
          .prepare = PrepareWgmmaFlash<Shape>,
          .launch = LaunchWgmmaFlash<Shape>,
          .merge = LaunchMerge,
          .takes = WgmmaFlashTakes<Shape>(),
          .check_bit = WgmmaFlashCheck<Shape>(backend)};
}

}  // namespace dunlin::kernels::cuda

// SPDX-License-Identifier: Apache-2.0
// An attention kernel of the CUDA device as a row: the calls that it takes, the geometry of its blocks, and the
// functions that size its workspace, plan its launches and enqueue them. A kernel is a folder and its rows in
// kernel_table.cc; what the device supports, workspaces, preparation and launches all read the row that FindKernel
// returns. Host code.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "kernels/cuda/attention/launch_plan.h"
#include "kernels/cuda/device/stream.h"
#include "kernels/shared/attention_rules.h"

namespace dunlin::kernels::cuda {

// The query rows of a launch. kDecode: one token per sequence; kPrefill: any number, dense calls included. A prefill
// chunk of one token cannot be told from decode here, so a kernel of one phase must keep the bits of the other's.
enum class AttentionPhase : uint8_t { kPrefill, kDecode };
inline constexpr AttentionPhase kAttentionPhases[] = {AttentionPhase::kPrefill, AttentionPhase::kDecode};

// Sets of enumerators, one bit each.
template <typename Enum>
constexpr unsigned Bit(Enum value) {
  return 1U << static_cast<unsigned>(value);
}
inline constexpr unsigned kAnyPhase = Bit(AttentionPhase::kPrefill) | Bit(AttentionPhase::kDecode);
inline constexpr int32_t kAnyLaterSm = 1 << 30;

struct AttentionKernel {
  AttentionBackend backend;
  unsigned phases;           // of AttentionPhase
  int32_t min_head_dim = 0;  // the larger of head_dim and v_head_dim is more: others have a row of their own
  int32_t sm_min;            // compute capabilities, both inclusive: 90 is 9.0
  int32_t sm_max;            // kAnyLaterSm: also those to come
  unsigned dtypes;           // of keys and values
  AttentionLimits limits;    // on head_dim and v_head_dim, bias, mask; the rest of AttentionTraits is always supported
  BlockGeometry geometry;
  PlanFunctions plan;
  // Raises the kernel's limit on shared memory, once, when the device is opened. Returns a cudaError_t.
  int (*prepare)();
  // Both enqueue on the stream and read no device memory. merge completes a launch whose plan has parts; null where
  // plans have none.
  void (*launch)(const AttentionCall&, const LaunchPlan&, Stream);
  void (*merge)(const AttentionCall&, const LaunchPlan&, Stream);
  // Whether the kernel takes a call of its traits: what these do not say, as alignment, or that scores are adjusted.
  // Null: it takes all of them. Where it does not, a row behind it must.
  bool (*takes)(const AttentionCall&) = nullptr;
  // Not 0: the row is compared with the general one of its calls when the device is opened, and left out where they
  // differ. Rows whose bits must agree, those of both phases, share one.
  uint64_t check_bit = 0;
};

// All rows, special kernels before general ones.
std::span<const AttentionKernel> AttentionKernels();

// Whether the device can run the kernel at all.
bool RunsOn(const AttentionKernel& kernel, const DeviceShape& device);

// The first of the rows that takes calls of these traits, or null. call: the one to launch; null: any.
const AttentionKernel* FindKernel(std::span<const AttentionKernel> rows, const DeviceShape& device,
                                  AttentionBackend backend, AttentionPhase phase, const AttentionTraits& traits,
                                  const AttentionCall* call = nullptr);

// Bytes for the largest call of a plan, for any number of sequences: those of the row that needs most, of all that may
// take one of its calls. REQUIRES: the device supports the backend with the plan's traits.
size_t PagedWorkspaceBytes(const DeviceShape& device, AttentionBackend backend, const PagedAttentionPlan& plan);

}  // namespace dunlin::kernels::cuda

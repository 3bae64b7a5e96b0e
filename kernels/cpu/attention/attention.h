// SPDX-License-Identifier: Apache-2.0
// The CPU device's attention entries: MATH, FLASH and EFFICIENT over KV pages and over dense tensors.
//
// Contract: kernels/api/attention.h. Calls allocate nothing: all scratch comes from the caller's workspace, whose size
// the *Workspace functions give for the context's number of threads. Thread rule: any thread; the work runs on
// context->pool.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "kernels/api/attention.h"
#include "kernels/api/compressed_attention.h"
#include "kernels/api/key_selection.h"
#include "kernels/api/status.h"

namespace dunlin::kernels::cpu {

struct DeviceContext;

// Appends one sentence per unmet condition to reasons (may be null); true when there is none.
bool SupportsAttention(const DeviceContext* context, AttentionBackend backend, const AttentionTraits& traits,
                       std::vector<std::string>* reasons);

// Bytes of workspace that serve any call within the plan, whatever its number of sequences.
size_t PagedAttentionWorkspace(const DeviceContext* context, AttentionBackend backend, const PagedAttentionPlan& plan);
KernelStatus PagedAttention(DeviceContext* context, const PagedAttentionParams& params);
// Whether outputs can be stored as rows of params.next: FP32 rows, and BF16 rows where the variant's hold BF16.
bool AttentionFuses(DeviceContext* context, const PagedAttentionParams& params);

// Bytes of workspace of this very call; pointers in params may still be null. MATH's holds S of every head.
size_t DenseAttentionWorkspace(const DeviceContext* context, const DenseAttentionParams& params);
KernelStatus DenseAttention(DeviceContext* context, const DenseAttentionParams& params);

KernelStatus StoreIndexKeys(DeviceContext* context, const StoreIndexKeysParams& params);
KernelStatus SelectKeys(DeviceContext* context, const SelectKeysParams& params);

KernelStatus RotateHeads(DeviceContext* context, const RotateHeadsParams& params);
KernelStatus CompressKeys(DeviceContext* context, const CompressKeysParams& params);
KernelStatus SelectEntries(DeviceContext* context, const SelectEntriesParams& params);
KernelStatus CompressedAttention(DeviceContext* context, const CompressedAttentionParams& params);

}  // namespace dunlin::kernels::cpu

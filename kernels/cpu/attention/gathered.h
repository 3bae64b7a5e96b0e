// SPDX-License-Identifier: Apache-2.0
// Sparse attention on the CPU. Every query token's chosen keys are copied, in ascending order, into pages of their own,
// over which an algorithm runs as over those of a sequence with one query token: keys that are not chosen are not read.
// Bit contract: a token's result is a function of its query and its chosen keys alone, in prefill as in decode.
#pragma once

#include "kernels/cpu/attention/backends.h"

namespace dunlin::kernels::cpu {

// The need of a call over gathered keys. most: keys that a token chooses.
WorkspaceNeed GatheredNeed(const WorkspaceNeed& need, int32_t group, int32_t most);

// layout: of the call's pages or, for a bound, of any with heads of its shape. need: GatheredNeed.
size_t GatheredWorkspace(const AttentionAlgorithm& algorithm, const KvLayout& layout, const WorkspaceNeed& need);

// REQUIRES: Gathers(call); workspace was sized by GatheredWorkspace of `need`, a bound of the call.
void RunGathered(DeviceContext* context, const AttentionAlgorithm& algorithm, const AttentionCall& call,
                 const WorkspaceNeed& need, void* workspace);

// Whether the call is one that keys may be gathered for: pages of keys alone, and no rule by a key's position.
bool Gathers(const AttentionCall& call);

}  // namespace dunlin::kernels::cpu

// SPDX-License-Identifier: Apache-2.0
// Sparse attention on the CPU. Every query token's chosen keys, of each KV head those that were chosen for it, are
// copied with their values, in ascending order, into pages of their own, over which an algorithm runs as over those of
// a sequence with one query token: keys that are not chosen are not read.
// Bit contract: a token's result is a function of its query and its chosen keys alone, in prefill as in decode.
#pragma once

#include "kernels/api/compressed_attention.h"
#include "kernels/cpu/attention/backends.h"

namespace dunlin::kernels::cpu {

// The need of a call over gathered keys. most: keys that a token chooses.
WorkspaceNeed GatheredNeed(const WorkspaceNeed& need, int32_t group, int32_t most);

// layout: of the call's pages or, for a bound, of any with heads of its shape. need: GatheredNeed.
size_t GatheredWorkspace(const AttentionAlgorithm& algorithm, const KvLayout& layout, const WorkspaceNeed& need);

// entries: what tokens see in addition to the keys of their windows; the choice is one of entries. Null: there are
// none. REQUIRES: Gathers(call, entries); workspace was sized by GatheredWorkspace of `need`, a bound of the call.
void RunGathered(DeviceContext* context, const AttentionAlgorithm& algorithm, const AttentionCall& call,
                 const WorkspaceNeed& need, void* workspace, const EntryPlace* entries = nullptr);

// Whether the call is one that keys may be gathered for: no pages of E4M3, and no rule by a key's position. With
// entries it has a window, and one head of keys that are the values.
bool Gathers(const AttentionCall& call, const EntryPlace* entries = nullptr);

}  // namespace dunlin::kernels::cpu

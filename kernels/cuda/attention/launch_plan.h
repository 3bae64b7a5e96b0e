// SPDX-License-Identifier: Apache-2.0
// How a call's work is divided among blocks, and the memory this takes. Host code over the call's bounds: it reads no
// device memory. Results do not depend on it, bit for bit.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "kernels/cuda/attention/partial.h"
#include "kernels/cuda/device/device_shape.h"

namespace dunlin::kernels::cuda {

// The shape of a kernel's blocks.
struct BlockGeometry {
  int32_t threads;
  int32_t rows;          // packed query rows, at most
  int32_t columns;       // value columns, at most; 0: all of a row
  int32_t part_keys;     // keys of a part (PartialStore); 0: the keys of a row are never divided among blocks
  int32_t stages;        // of keys and values in shared memory
  int32_t shared_bytes;  // dynamic shared memory
  // Of the parts of a launch, at most; a launch that has more is not divided.
  int64_t part_bytes_max = int64_t{64} << 20;
};

// What all kernels need of a launch's division, and the data of the one that is launched.
struct LaunchPlan {
  int32_t row_blocks;    // of BlockGeometry::rows packed rows, per (sequence, KV head)
  int32_t column_tiles;  // of BlockGeometry::columns, divided among blocks; 1: a block has all columns
  PartialStore parts;    // data null: a block walks through all keys of its rows
  int32_t part_keys;
  int64_t blocks;  // grid size

  // The kernel's own data, a plain struct of at most 32 bytes that its plan function sets.
  alignas(8) unsigned char own[32];
  template <typename Own>
  DUNLIN_HD Own OwnAs() const {
    static_assert(sizeof(Own) <= sizeof(own) && std::is_trivially_copyable_v<Own>);
    Own value;
    memcpy(&value, own, sizeof(Own));
    return value;
  }
  template <typename Own>
  void SetOwn(const Own& value) {
    static_assert(sizeof(Own) <= sizeof(own) && std::is_trivially_copyable_v<Own>);
    memcpy(own, &value, sizeof(Own));
  }
};

// Position of block `index` in the grid. Blocks of one (sequence, KV head) are adjacent, those with the most keys
// first.
struct BlockPlace {
  int32_t sequence;
  int32_t kv_head;
  int32_t row_block;
  int32_t column_tile;
  int32_t part;
};
DUNLIN_HD inline BlockPlace PlaceOf(const LaunchPlan& plan, int32_t num_kv_heads, int64_t index) {
  BlockPlace place{};
  const int32_t parts = plan.parts.data == nullptr ? 1 : plan.parts.num_parts;
  place.part = static_cast<int32_t>(index % parts);
  index /= parts;
  place.column_tile = static_cast<int32_t>(index % plan.column_tiles);
  index /= plan.column_tiles;
  place.row_block = plan.row_blocks - 1 - static_cast<int32_t>(index % plan.row_blocks);
  index /= plan.row_blocks;
  place.kv_head = static_cast<int32_t>(index % num_kv_heads);
  place.sequence = static_cast<int32_t>(index / num_kv_heads);
  return place;
}

// How a kernel's work is divided. Host functions of a kernel's geometry and a call's bounds.
struct PlanFunctions {
  // Bytes for the largest call of a plan, for any number of sequences.
  size_t (*paged_workspace)(const BlockGeometry&, const PagedAttentionPlan&, const DeviceShape&);
  // Bytes for this call.
  size_t (*dense_workspace)(const BlockGeometry&, const AttentionCall&, const DeviceShape&);
  // Fills the plan. False when the workspace is too small.
  bool (*divide)(const BlockGeometry&, const AttentionCall&, const DeviceShape&, void* workspace,
                 size_t workspace_bytes, LaunchPlan*);
};

// What plan functions share.
constexpr int64_t CeilDiv(int64_t a, int64_t b) {
  return (a + b - 1) / b;
}
inline bool IsDense(const AttentionCall& call) {
  return call.spans == nullptr;
}
// Tasks are (sequence, KV head, block of rows).
int64_t TasksOf(const BlockGeometry& geometry, const AttentionCall& call);
// One block per task and column tile, without parts.
void PlanGrid(const BlockGeometry& geometry, const AttentionCall& call, LaunchPlan* plan);
// Divides the keys of each task among blocks and returns true where that pays off and `bytes` of memory suffice.
bool PlanParts(const BlockGeometry& geometry, const AttentionCall& call, const DeviceShape& device, void* memory,
               size_t bytes, LaunchPlan* plan);
// Bytes of a call's parts; 0 where PlanParts would not divide its keys.
size_t PartBytes(const BlockGeometry& geometry, const AttentionCall& call, const DeviceShape& device);
// PlanFunctions::paged_workspace of kernels that need memory for parts alone.
size_t PagedPartBytes(const BlockGeometry& geometry, const PagedAttentionPlan& plan, const DeviceShape& device);

// A paged call as one or two launches: the first num_one_token sequences, which have one query token each, apart from
// the others, because keys are divided only where no sequence of a launch has many rows. A prefill chunk would
// otherwise leave each decoding sequence beside it to one block per KV head.
struct SplitCall {
  AttentionCall calls[2];
  bool one_token[2];  // of each of their sequences
  int count;
};
SplitCall SplitByRows(const AttentionCall& call, int32_t num_one_token);

}  // namespace dunlin::kernels::cuda

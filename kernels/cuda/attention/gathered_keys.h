// SPDX-License-Identifier: Apache-2.0
// Sparse attention over chosen keys alone: a query row becomes a sequence of one token whose pages hold a key each. A
// kernel lists where the keys that a row has chosen lie, in ascending order, and any backend's general kernel copies
// them, as it copies all keys by their pages: no other key is read.
// Bit contract: tiles and splits count chosen keys, so that a row's bits follow from its query and its choice, in
// prefill as in decode, and a row that chooses all of its keys has the bits of attention without a choice, but for
// FLASH on 9.0 where wgmma takes the latter.
#pragma once

#include <bit>

#include "kernels/cuda/attention/launch_plan.h"
#include "kernels/cuda/device/stream.h"

namespace dunlin::kernels::cuda {

inline constexpr int32_t kGatheredRows = 1024;  // of a call that are listed and computed at once

// A list names a key by the distance of its row from page 0, in the largest unit that page_bytes and row_bytes are
// multiples of. Slot s is query row first_row + s; it is empty where that is of no sequence.
struct KeyListCall {
  const SequenceSpan* spans;
  int32_t num_sequences;
  int32_t first_row;
  int32_t num_slots;  // up to kGatheredRows
  const int32_t* page_table;
  int64_t page_table_stride;
  int32_t page_shift;
  int32_t page_units;
  int32_t row_units;
  KeySelection selection;
  SequenceSpan* rows;  // [num_slots]
  int32_t* keys;       // [num_slots, selection.most]
};

DUNLIN_HD inline int32_t BitsIn(uint32_t word) {
#ifdef __CUDA_ARCH__
  return __popc(word);
#else
  return std::popcount(word);
#endif
}
DUNLIN_HD inline int32_t LowestBit(uint32_t word) {
#ifdef __CUDA_ARCH__
  return __ffs(static_cast<int>(word)) - 1;
#else
  return std::countr_zero(word);
#endif
}

// Shared memory of the lanes that list a row's keys, at most kLanes.
template <int kLanes>
struct KeyListMemory {
  int32_t sequence;
  int32_t counts[kLanes];  // keys of each lane
};

// The sequence that has the query row, or -1, for all lanes, each of which looks at some.
template <int kLanes, typename Lanes>
DUNLIN_HD int32_t SequenceOfRow(const Lanes& lanes, const KeyListCall& gather, int32_t row,
                                KeyListMemory<kLanes>* memory) {
  if (lanes.index() == 0) memory->sequence = -1;
  lanes.Sync();
  for (int32_t i = lanes.index(); i < gather.num_sequences; i += lanes.count()) {
    const int32_t token = row - gather.spans[i].query_start;
    if (token >= 0 && token < gather.spans[i].query_len) memory->sequence = i;
  }
  lanes.Sync();
  return memory->sequence;
}

// The keys of a slot, and its sequence, by the lanes of a block, each from a range of words.
template <int kLanes, typename Lanes>
DUNLIN_HD void ListKeys(const Lanes& lanes, const KeyListCall& gather, int32_t slot, KeyListMemory<kLanes>* memory) {
  const int32_t query = gather.first_row + slot;
  const int32_t sequence = SequenceOfRow(lanes, gather, query, memory);
  if (sequence < 0) {
    if (lanes.index() == 0) gather.rows[slot] = {0, 0, 0, 0};
    return;
  }
  const SequenceSpan& span = gather.spans[sequence];
  const int64_t row = gather.selection.rows == nullptr ? query : gather.selection.rows[query];
  const uint32_t* words = gather.selection.bits + row * gather.selection.stride;
  const int32_t num_words = (span.first_position + query - span.query_start) / 32 + 1;
  const int32_t each = (num_words + lanes.count() - 1) / lanes.count();
  const int32_t begin = AtMost(lanes.index() * each, num_words);
  const int32_t end = AtMost(begin + each, num_words);
  int32_t count = 0;
  for (int32_t word = begin; word < end; ++word) count += BitsIn(words[word]);
  memory->counts[lanes.index()] = count;
  lanes.Sync();
  int32_t before = 0;  // keys of the lanes before
  for (int32_t lane = 0; lane < lanes.index(); ++lane) before += memory->counts[lane];
  if (lanes.index() + 1 == lanes.count()) gather.rows[slot] = {query, 1, before + count - 1, slot};
  const int32_t* pages = gather.page_table + span.page_table_row * gather.page_table_stride;
  int32_t* keys = gather.keys + int64_t{slot} * gather.selection.most + before;
  for (int32_t word = begin; word < end; ++word) {
    for (uint32_t bits = words[word]; bits != 0; bits &= bits - 1) {
      const int32_t key = word * 32 + LowestBit(bits);
      const int32_t in_page = key & ((1 << gather.page_shift) - 1);
      *keys++ = pages[key >> gather.page_shift] * gather.page_units + in_page * gather.row_units;
    }
  }
}

// --- Host.

// Whether the keys of a call's rows are gathered: it has a choice, and 31 bits name every row of the pool. With rows of
// DeepSeek V3.2 and GLM 5, whose unit is 128 bytes, they do up to 256 GiB. Kernels compute all scores of larger pools,
// and leave out those of keys that are not chosen.
bool GathersKeys(const PagedAttentionParams& params);
// Of the lists, at the start of a workspace; a multiple of 64. most: KeySelection::most.
size_t GatheredListBytes(int32_t most);
// Rows [first_row, first_row + num_slots) of a call whose keys are gathered. lists: GatheredListBytes, 64-byte aligned.
KeyListCall KeyListCallOf(const AttentionCall& call, int32_t first_row, int32_t num_slots, void* lists);
// The attention of these slots, each a sequence of one token, once ListKeys has run for all of them.
AttentionCall GatheredCallOf(const AttentionCall& call, const KeyListCall& gather);
// What its kernels need memory for, of calls that a plan with selected_keys covers.
PagedAttentionPlan GatheredPlanOf(const PagedAttentionPlan& plan);

// Enqueues ListKeys for every slot.
void LaunchListKeys(const KeyListCall& gather, Stream stream);

}  // namespace dunlin::kernels::cuda

// SPDX-License-Identifier: Apache-2.0
#include "server/fronts/smg_worker/kv_event_messages.h"

#include "absl/time/clock.h"
#include "absl/time/time.h"

namespace dunlin::server {
namespace {

// Of a block's message, besides its tokens: two hashes of ten bytes, an id, sizes and tags.
constexpr size_t kBlockBytes = 64;
constexpr size_t kTokenBytes = 4;  // of ids below 2^28, as a varint

void AppendStored(const engine::KvEvent& event, smg_common::KvCacheEvent* wire) {
  smg_common::KvBlocksStored* stored = wire->mutable_stored();
  if (event.parent != engine::kNoKvBlock) stored->set_parent_block_hash(static_cast<int64_t>(event.parent));
  stored->set_tier(smg_common::KV_CACHE_TIER_DEVICE);
  smg_common::KvBlock* block = stored->add_blocks();
  block->set_block_hash(static_cast<int64_t>(event.block));
  block->set_block_size(static_cast<int32_t>(event.tokens.size()));
  for (const engine::TokenId id : event.tokens) block->add_token_ids(static_cast<uint32_t>(id));
}

smg_common::KvEventBatch EmptyBatch(uint64_t number) {
  smg_common::KvEventBatch wire;
  wire.set_sequence_number(number);
  wire.set_timestamp(absl::ToDoubleSeconds(absl::Now() - absl::UnixEpoch()));
  wire.set_dp_rank(0);
  return wire;
}

smg_common::KvCacheEvent* AddEvent(smg_common::KvEventBatch* batch) {
  smg_common::KvCacheEvent* event = batch->add_events();
  event->set_event_id(static_cast<uint64_t>(batch->events_size()));
  return event;
}

}  // namespace

smg_common::KvEventBatch BatchToWire(const engine::KvEventBatch& batch) {
  smg_common::KvEventBatch wire = EmptyBatch(batch.number);
  for (const engine::KvEvent& event : batch.events) {
    switch (event.kind) {
      case engine::KvEventKind::kStored:
        if (event.domain == 0) AppendStored(event, AddEvent(&wire));
        break;
      case engine::KvEventKind::kRemoved:  // of any domain: routers ignore those that they do not know
        AddEvent(&wire)->mutable_removed()->add_block_hashes(static_cast<int64_t>(event.block));
        break;
      case engine::KvEventKind::kCleared:
        AddEvent(&wire)->mutable_cleared();
        break;
    }
  }
  return wire;
}

smg_common::KvEventBatch SnapshotToWire(const engine::KvSnapshot& snapshot, size_t max_bytes) {
  smg_common::KvEventBatch wire = EmptyBatch(snapshot.number);
  AddEvent(&wire)->mutable_cleared();
  size_t bytes = 0;
  for (const engine::KvEvent& block : snapshot.blocks) {
    if (block.domain != 0) continue;
    bytes += kBlockBytes + block.tokens.size() * kTokenBytes;
    if (bytes > max_bytes) break;
    AppendStored(block, AddEvent(&wire));
  }
  return wire;
}

}  // namespace dunlin::server

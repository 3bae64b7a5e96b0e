// SPDX-License-Identifier: Apache-2.0
// Batches of KV events to wire. Only blocks that any request can read are told (domain 0: the default profile, no
// salt). Pure functions, any thread.
#pragma once

#include "engine/cache/kv_events.h"
#include "smg/common.pb.h"

namespace dunlin::server {

namespace smg_common = ::smg::grpc::common;

// May have no event: routers need every number.
smg_common::KvEventBatch BatchToWire(const engine::KvEventBatch& batch);

// What the cache holds, as one batch with the number of the last one in it. Blocks beyond max_bytes are left out, those
// at the end of prefixes first.
smg_common::KvEventBatch SnapshotToWire(const engine::KvSnapshot& snapshot, size_t max_bytes);

}  // namespace dunlin::server

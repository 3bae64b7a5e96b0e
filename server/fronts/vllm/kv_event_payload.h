// SPDX-License-Identifier: Apache-2.0
// A batch of KV events as vLLM publishes it: MessagePack, structures as arrays, [time, events, data-parallel rank].
//   ["BlockStored", hashes, parent hash or nil, token ids, block size, nil, "GPU", nil, extra keys of each block]
//   ["BlockRemoved", hashes, "GPU"]   ["AllBlocksCleared"]
// The medium is the memory that the engine computes from, whatever its device. Extra keys are there for blocks of
// another domain alone: a text that names it. Pure function, any thread.
#pragma once

#include <string>

#include "engine/cache/kv_events.h"

namespace dunlin::server {

// unix_time: of the batch, in seconds.
std::string KvEventPayload(const engine::KvEventBatch& batch, double unix_time);

}  // namespace dunlin::server

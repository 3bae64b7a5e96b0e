// SPDX-License-Identifier: Apache-2.0
// What a request holds of a low-rank adapter, and how many adapters a model may have (engine/adapters). Plain data;
// any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

namespace dunlin::engine {

class Adapter;  // engine/adapters/adapter.h

inline constexpr int32_t kMaxAdapters = 1024;    // of a model
inline constexpr int32_t kMaxAdapterRank = 256;  // of one matrix
inline constexpr size_t kMaxAdapterNameBytes = 256;
// The ranks of one projection of a layer together are at most so many times AdapterLimits::max_rank: Q, K and V.
inline constexpr int32_t kAdapterRanks = 3;

// Keeps an adapter in memory. id: of this load of it, > 0, never given twice by a process, so that an adapter that is
// loaded again under its name shares nothing with the one before; 0: there is no adapter, the request runs the base.
struct AdapterLease {
  std::shared_ptr<const Adapter> adapter;
  uint64_t id = 0;
};

// Of one model; those that have been unloaded count until their last request has ended.
struct AdapterLimits {
  int32_t max_adapters = 0;            // [0, kMaxAdapters]; 0: the model is served without adapters
  int32_t max_rank = 64;               // of one matrix, [1, kMaxAdapterRank]; the buffers of a step grow with it
  size_t max_bytes = size_t{1} << 30;  // of the device memory of all
};

}  // namespace dunlin::engine

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

// Keeps an adapter in device memory. id: of this load of it, > 0, never given twice by a process, so that an adapter
// that is loaded again under its name shares nothing with the one before; 0: there is no adapter, the request runs the
// base. adapter is null with an id > 0 for one that is registered and not in device memory: no request runs with that.
struct AdapterLease {
  std::shared_ptr<const Adapter> adapter;
  uint64_t id = 0;
};

// Of one model; those that have been unloaded count until their last request has ended.
struct AdapterLimits {
  int32_t max_adapters = 0;            // in device memory, [0, kMaxAdapters]; 0: the model is served without adapters
  int32_t max_rank = 64;               // of one matrix, [1, kMaxAdapterRank]; the buffers of a step grow with it
  size_t max_bytes = size_t{1} << 30;  // of the device memory of all
  int32_t max_registered = 0;          // by name, [max_adapters, kMaxAdapters]; 0: max_adapters, and none is evicted
  size_t max_host_bytes = 0;           // of the host memory of those that are evicted; others are read again
};

// How the adapters of a model have come and gone, since it was loaded.
struct AdapterMoves {
  uint64_t evictions = 0;  // from device memory
  uint64_t restores = 0;   // to it, by Restore
  uint64_t reads = 0;      // restores that read the files again
  size_t host_bytes = 0;   // held now, of evicted ones
};

}  // namespace dunlin::engine

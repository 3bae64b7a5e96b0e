// SPDX-License-Identifier: Apache-2.0
// Divides memory into KV pages among models whose models[].kv_cache.memory_bytes is "auto", and into what adapters of
// experts may take of it. Pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace dunlin::server {

// The pages of one model, or pieces of memory for its adapters.
struct KvShare {
  int64_t least = 0;  // one full context; of adapters none
  int64_t most = 0;   // as many full contexts as may run at once; >= least
  size_t bytes_per_page = 0;
  int64_t pages = 0;  // the result, in [least, most]
};

// Each model gets `least`, and the same fraction of what it could use beyond that. False, with pages = least, when not
// even that fits into `bytes`.
bool DivideKv(size_t bytes, std::vector<KvShare>* shares);

}  // namespace dunlin::server

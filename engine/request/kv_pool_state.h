// SPDX-License-Identifier: Apache-2.0
// How much of a KV pool has memory. A pool is backed while its model serves already (engine/runtime/pool_backing.h):
// its first num_pages pages may be used, and never fewer later on. Plain data.
#pragma once

#include <cstdint>

namespace dunlin::engine {

struct KvPoolState {
  int32_t num_pages = 0;
  bool grows = false;  // false: this is all that there will be, also where the pool was planned with more
};

}  // namespace dunlin::engine

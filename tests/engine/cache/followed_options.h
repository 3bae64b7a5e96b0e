// SPDX-License-Identifier: Apache-2.0
// The options of a prefix cache whose changes an event log follows, for tests of what routers are told.
#pragma once

#include <cstdint>

#include "engine/cache/kv_events.h"
#include "engine/cache/prefix_cache.h"

namespace dunlin::engine {

// The log outlives the cache.
inline PrefixCacheOptions FollowedOptions(int32_t num_pages, int32_t page_tokens, const KvGroups& groups,
                                          KvEventLog* log) {
  PrefixCacheOptions options;
  options.num_pages = num_pages;
  options.groups = groups;
  options.max_tokens_per_page = page_tokens;
  options.hash_key = {1, 2, 3, 4, 5, 6, 7, 8};
  options.changes = log->changes();
  return options;
}

}  // namespace dunlin::engine

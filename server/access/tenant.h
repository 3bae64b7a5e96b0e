// SPDX-License-Identifier: Apache-2.0
// A principal as the engine's schedulers know it. Pure, any thread.
// Source: Fowler, Noll, Vo: FNV-1a, 64 bits.
#pragma once

#include <cstdint>
#include <string_view>

#include "engine/types.h"

namespace dunlin::server {

// kSharedTenant for "", the anonymous one. Two names with the same hash share one part.
constexpr engine::TenantId TenantOf(std::string_view principal_name) {
  if (principal_name.empty()) return engine::kSharedTenant;
  uint64_t hash = 0xcbf29ce484222325U;
  for (const char c : principal_name) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3U;
  return hash == engine::kSharedTenant ? 1 : hash;
}

}  // namespace dunlin::server

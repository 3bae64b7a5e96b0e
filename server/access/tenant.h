// SPDX-License-Identifier: Apache-2.0
// A principal as the engine's schedulers and shares of bounded resources know it. Pure, any thread.
// Source: Fowler, Noll, Vo: FNV-1a, 64 bits.
#pragma once

#include <cstdint>
#include <string_view>

#include "engine/request/types.h"

namespace dunlin::server {

// kSharedTenant for "", the anonymous one. Two names with the same hash share one part.
constexpr engine::TenantId TenantOf(std::string_view principal_name) {
  if (principal_name.empty()) return engine::kSharedTenant;
  uint64_t hash = 0xcbf29ce484222325U;
  for (const char c : principal_name) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3U;
  return hash == engine::kSharedTenant ? 1 : hash;
}

// Whose requests those are that come without a name from this client address ("192.0.2.1", "2001:db8::1"). Of IPv6 the
// first 64 bits count: a host may use every address behind them. Anything else is one tenant per text.
engine::TenantId TenantOfAddress(std::string_view address);

}  // namespace dunlin::server

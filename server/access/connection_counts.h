// SPDX-License-Identifier: Apache-2.0
// How many connections a port has, in all and by client address. Plain data; one thread at a time.
#pragma once

#include <cstdint>
#include <string>

#include "absl/container/flat_hash_map.h"

namespace dunlin::server {

struct ConnectionLimits {
  int32_t total = 0;
  int32_t per_address = 0;
};

class ConnectionCounts {
 public:
  explicit ConnectionCounts(const ConnectionLimits& limits) : limits_(limits) {}

  // Counts one more connection from the address ("192.0.2.1"); false, and no change, if either limit is reached.
  bool TryAdd(const std::string& address) {
    if (total_ >= limits_.total) return false;
    int32_t& own = by_address_[address];
    if (own >= limits_.per_address) return false;  // not 0, so the entry is not new
    ++own;
    ++total_;
    return true;
  }

  // REQUIRES: TryAdd counted one from the address.
  void Remove(const std::string& address) {
    const auto own = by_address_.find(address);
    --total_;
    if (--own->second == 0) by_address_.erase(own);
  }

  int32_t total() const { return total_; }

 private:
  const ConnectionLimits limits_;
  int32_t total_ = 0;
  absl::flat_hash_map<std::string, int32_t> by_address_;  // at most total_ entries, none of them 0
};

}  // namespace dunlin::server

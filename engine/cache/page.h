// SPDX-License-Identifier: Apache-2.0
// Identifies pages of the KV pool, and prefixes of whole pages in the prefix cache. Plain data.
#pragma once

#include <array>
#include <cstdint>

namespace dunlin::engine {

using PageId = int32_t;
inline constexpr PageId kNoPage = -1;

// Pages that `num_tokens` tokens take.
constexpr int32_t PagesFor(int32_t num_tokens, int32_t tokens_per_page) {
  return static_cast<int32_t>((int64_t{num_tokens} + tokens_per_page - 1) / tokens_per_page);
}

using Digest = std::array<uint32_t, 8>;  // 256 bits

// What identifies a cached page set (one page of each layer group, prefix_cache.h) outside of the engine, where routers
// call it a KV block: 64 bits of the hash of its prefix up to and with its own tokens, its profile and its salt. Equal
// for equal page sets of one process.
using KvBlockId = uint64_t;
inline constexpr KvBlockId kNoKvBlock = 0;

// Never kNoKvBlock.
constexpr KvBlockId KvBlockIdOf(const Digest& key) {
  const KvBlockId id = key[0] | (KvBlockId{key[1]} << 32);
  return id == kNoKvBlock ? 1 : id;
}

// A prefix of whole pages: what was hashed so far. Equal chains mean equal tokens, profile and salt.
struct PrefixChain {
  Digest domain{};        // of (device, precision, KV dtype, attention backend, salt); never shared across
  Digest key{};           // of the domain and of every page so far
  uint64_t serial = 0;    // of the last page's entry in the cache; 0 at the root
  int32_t num_pages = 0;  // so far
};

}  // namespace dunlin::engine

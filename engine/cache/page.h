// The words of the KV page cache: pages by id, and where a token prefix stands in the cache. Plain data.
#pragma once

#include <array>
#include <cstdint>

namespace dunlin::engine {

using PageId = int32_t;
inline constexpr PageId kNoPage = -1;

using Digest = std::array<uint32_t, 8>;  // 256 bits

// A prefix of whole pages: what was hashed so far. Equal chains mean equal tokens, profile and salt.
struct PrefixChain {
  Digest domain{};        // of (device, precision, KV dtype, attention backend, salt); never shared across
  Digest key{};           // of the domain and of every page so far
  uint64_t serial = 0;    // of the last page's entry in the cache; 0 at the root
  int32_t num_pages = 0;  // so far
};

}  // namespace dunlin::engine

// SPDX-License-Identifier: Apache-2.0
// BLAKE2s-256 with a key: the hash of the prefix cache. The key keeps clients from constructing collisions; with 256
// bits none occur by accident. Never allocates; const after construction, any thread.
// Source: RFC 7693, sections 2 and 3.
#pragma once

#include <cstddef>
#include <cstdint>

#include "engine/cache/page.h"

namespace dunlin::engine {

class KeyedHash {
 public:
  explicit KeyedHash(const Digest& key);

  // Hash of a's bytes followed by b's. REQUIRES: one of them is not empty.
  Digest operator()(const void* a, size_t a_bytes, const void* b, size_t b_bytes) const;

 private:
  static constexpr size_t kBlockBytes = 64;

  // A hash in progress. A block is compressed only when a byte after it is known, because the last one is marked.
  struct Progress {
    Digest h;
    uint64_t bytes_compressed;
    size_t bytes_buffered;  // <= kBlockBytes
    uint8_t buffer[kBlockBytes];

    void Update(const void* data, size_t bytes);
    void Compress(bool last);
  };

  Progress after_key_;  // the key is the first block of every message
};

}  // namespace dunlin::engine

// SPDX-License-Identifier: Apache-2.0
#include "engine/cache/keyed_hash.h"

#include <algorithm>
#include <bit>
#include <cstring>

namespace dunlin::engine {
namespace {

static_assert(std::endian::native == std::endian::little, "message words are read as they lie in memory");

constexpr Digest kInitial = {0x6A09E667, 0xBB67AE85, 0x3C6EF372, 0xA54FF53A,
                             0x510E527F, 0x9B05688C, 0x1F83D9AB, 0x5BE0CD19};

constexpr int kNumRounds = 10;
constexpr uint8_t kSigma[kNumRounds][16] = {
    {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15}, {14, 10, 4, 8, 9, 15, 13, 6, 1, 12, 0, 2, 11, 7, 5, 3},
    {11, 8, 12, 0, 5, 2, 15, 13, 10, 14, 3, 6, 7, 1, 9, 4}, {7, 9, 3, 1, 13, 12, 11, 14, 2, 6, 5, 10, 4, 0, 15, 8},
    {9, 0, 5, 7, 2, 4, 10, 15, 14, 1, 11, 12, 6, 8, 3, 13}, {2, 12, 6, 10, 0, 11, 8, 3, 4, 13, 7, 5, 15, 14, 1, 9},
    {12, 5, 1, 15, 14, 13, 4, 10, 0, 7, 6, 3, 9, 2, 8, 11}, {13, 11, 7, 14, 12, 1, 3, 9, 5, 0, 15, 4, 8, 6, 2, 10},
    {6, 15, 14, 9, 11, 3, 0, 8, 12, 2, 13, 7, 1, 4, 10, 5}, {10, 2, 8, 4, 7, 6, 1, 5, 15, 11, 9, 14, 3, 12, 13, 0},
};

void Mix(uint32_t* v, int a, int b, int c, int d, uint32_t x, uint32_t y) {
  v[a] = v[a] + v[b] + x;
  v[d] = std::rotr(v[d] ^ v[a], 16);
  v[c] = v[c] + v[d];
  v[b] = std::rotr(v[b] ^ v[c], 12);
  v[a] = v[a] + v[b] + y;
  v[d] = std::rotr(v[d] ^ v[a], 8);
  v[c] = v[c] + v[d];
  v[b] = std::rotr(v[b] ^ v[c], 7);
}

}  // namespace

KeyedHash::KeyedHash(const Digest& key) : after_key_{kInitial, 0, 0, {}} {
  constexpr uint32_t kDigestAndKeyBytes = 32 | (32 << 8) | (1 << 16) | (1 << 24);  // parameter block, word 0
  after_key_.h[0] ^= kDigestAndKeyBytes;
  uint8_t block[kBlockBytes] = {};
  std::memcpy(block, key.data(), sizeof(key));
  after_key_.Update(block, sizeof(block));
}

Digest KeyedHash::operator()(const void* a, size_t a_bytes, const void* b, size_t b_bytes) const {
  Progress progress = after_key_;
  progress.Update(a, a_bytes);
  progress.Update(b, b_bytes);
  std::memset(progress.buffer + progress.bytes_buffered, 0, kBlockBytes - progress.bytes_buffered);
  progress.Compress(true);
  return progress.h;
}

void KeyedHash::Progress::Update(const void* data, size_t bytes) {
  const auto* from = static_cast<const uint8_t*>(data);
  while (bytes > 0) {
    if (bytes_buffered == kBlockBytes) Compress(false);
    const size_t taken = std::min(bytes, kBlockBytes - bytes_buffered);
    std::memcpy(buffer + bytes_buffered, from, taken);
    bytes_buffered += taken;
    from += taken;
    bytes -= taken;
  }
}

void KeyedHash::Progress::Compress(bool last) {
  uint32_t m[16];
  std::memcpy(m, buffer, sizeof(m));
  bytes_compressed += bytes_buffered;
  bytes_buffered = 0;

  uint32_t v[16];
  std::copy(h.begin(), h.end(), v);
  std::copy(kInitial.begin(), kInitial.end(), v + 8);
  v[12] ^= static_cast<uint32_t>(bytes_compressed);
  v[13] ^= static_cast<uint32_t>(bytes_compressed >> 32);
  if (last) v[14] = ~v[14];
  for (const auto& s : kSigma) {
    Mix(v, 0, 4, 8, 12, m[s[0]], m[s[1]]);
    Mix(v, 1, 5, 9, 13, m[s[2]], m[s[3]]);
    Mix(v, 2, 6, 10, 14, m[s[4]], m[s[5]]);
    Mix(v, 3, 7, 11, 15, m[s[6]], m[s[7]]);
    Mix(v, 0, 5, 10, 15, m[s[8]], m[s[9]]);
    Mix(v, 1, 6, 11, 12, m[s[10]], m[s[11]]);
    Mix(v, 2, 7, 8, 13, m[s[12]], m[s[13]]);
    Mix(v, 3, 4, 9, 14, m[s[14]], m[s[15]]);
  }
  for (size_t i = 0; i < h.size(); ++i) h[i] ^= v[i] ^ v[i + 8];
}

}  // namespace dunlin::engine

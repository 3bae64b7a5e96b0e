// SPDX-License-Identifier: Apache-2.0
// Expected digests: Python's hashlib.blake2s(data, key=bytes(range(32))).
#include "engine/cache/keyed_hash.h"

#include <gtest/gtest.h>

#include <cstring>
#include <numeric>
#include <string>
#include <vector>

namespace dunlin::engine {
namespace {

Digest CountingKey() {
  uint8_t bytes[32];
  std::iota(std::begin(bytes), std::end(bytes), uint8_t{0});
  Digest key;
  std::memcpy(key.data(), bytes, sizeof(key));
  return key;
}

std::vector<uint8_t> CountingBytes(size_t count) {
  std::vector<uint8_t> bytes(count);
  std::iota(bytes.begin(), bytes.end(), uint8_t{0});
  return bytes;
}

std::string Hex(const Digest& digest) {
  constexpr char kDigits[] = "0123456789abcdef";
  std::string text;
  const auto* bytes = reinterpret_cast<const uint8_t*>(digest.data());
  for (size_t i = 0; i < sizeof(digest); ++i) {
    text += kDigits[bytes[i] >> 4];
    text += kDigits[bytes[i] & 15];
  }
  return text;
}

TEST(KeyedHash, IsBlake2s) {
  const KeyedHash hash(CountingKey());
  EXPECT_EQ(Hex(hash("abc", 3, nullptr, 0)), "a281f725754969a702f6fe36fc591b7def866e4b70173ece402fc01c064d6b65");
  EXPECT_EQ(Hex(hash(CountingBytes(64).data(), 64, nullptr, 0)),
            "8975b0577fd35566d750b362b0897a26c399136df07bababbde6203ff2954ed4");
  EXPECT_EQ(Hex(hash(CountingBytes(200).data(), 200, nullptr, 0)),
            "13c88480a5d00d6c8c7ad2110d76a82d9b70f4fa6696d4e5dd42a066dcaf9920");
}

TEST(KeyedHash, DoesNotCareWhereTheMessageIsCut) {
  const KeyedHash hash(CountingKey());
  const std::vector<uint8_t> bytes = CountingBytes(200);
  const Digest whole = hash(bytes.data(), bytes.size(), nullptr, 0);
  for (size_t cut = 0; cut <= bytes.size(); ++cut) {
    EXPECT_EQ(hash(bytes.data(), cut, bytes.data() + cut, bytes.size() - cut), whole) << cut;
  }
}

TEST(KeyedHash, DependsOnTheKey) {
  Digest other = CountingKey();
  other[7] ^= 1U << 31;
  EXPECT_NE(KeyedHash(CountingKey())("abc", 3, nullptr, 0), KeyedHash(other)("abc", 3, nullptr, 0));
}

}  // namespace
}  // namespace dunlin::engine

// SPDX-License-Identifier: Apache-2.0
#include "server/serving/record/entropy.h"

#include <unistd.h>

#include <array>
#include <string_view>

#include "absl/strings/escaping.h"
#include "engine/base/check.h"

namespace dunlin::server {

std::string DrawRequestId() {
  std::array<char, 16> bytes;
  DUNLIN_CHECK(getentropy(bytes.data(), bytes.size()) == 0, "the system has random bytes");
  return absl::BytesToHexString({bytes.data(), bytes.size()});
}

std::string DrawLetters(size_t count) {
  constexpr std::string_view kLetters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789";
  constexpr size_t kFair = 256 / kLetters.size() * kLetters.size();  // bytes from here on would favour some letters
  std::string letters;
  while (letters.size() < count) {
    std::array<unsigned char, 32> bytes;
    DUNLIN_CHECK(getentropy(bytes.data(), bytes.size()) == 0, "the system has random bytes");
    for (const unsigned char byte : bytes) {
      if (byte < kFair && letters.size() < count) letters.push_back(kLetters[byte % kLetters.size()]);
    }
  }
  return letters;
}

uint64_t DrawSeed() {
  uint64_t seed = 0;
  DUNLIN_CHECK(getentropy(&seed, sizeof seed) == 0, "the system has random bytes");
  return seed;
}

}  // namespace dunlin::server

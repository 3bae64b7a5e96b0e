// SPDX-License-Identifier: Apache-2.0
#include "server/serving/entropy.h"

#include <unistd.h>

#include <array>

#include "absl/strings/escaping.h"
#include "engine/base/check.h"

namespace dunlin::server {

std::string DrawRequestId() {
  std::array<char, 16> bytes;
  DUNLIN_CHECK(getentropy(bytes.data(), bytes.size()) == 0, "the system has random bytes");
  return absl::BytesToHexString({bytes.data(), bytes.size()});
}

uint64_t DrawSeed() {
  uint64_t seed = 0;
  DUNLIN_CHECK(getentropy(&seed, sizeof seed) == 0, "the system has random bytes");
  return seed;
}

}  // namespace dunlin::server

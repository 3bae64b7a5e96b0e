// SPDX-License-Identifier: Apache-2.0
// Philox4x32-10, a counter-based random number generator: a pure function of (key, counter), without state.
// Source: Salmon et al. 2011, "Parallel Random Numbers: As Easy as 1, 2, 3", section 4; constants from Random123.
#pragma once

#include <array>
#include <cstdint>

namespace dunlin::kernels {

using PhiloxBlock = std::array<uint32_t, 4>;

constexpr PhiloxBlock Philox4x32(uint64_t key, PhiloxBlock counter) {
  constexpr int kRounds = 10;
  constexpr uint64_t kMultiplier0 = 0xD2511F53;
  constexpr uint64_t kMultiplier1 = 0xCD9E8D57;
  constexpr uint32_t kWeyl0 = 0x9E3779B9;
  constexpr uint32_t kWeyl1 = 0xBB67AE85;
  auto key0 = static_cast<uint32_t>(key);
  auto key1 = static_cast<uint32_t>(key >> 32);
  for (int round = 0; round < kRounds; ++round) {
    const uint64_t product0 = kMultiplier0 * counter[0];
    const uint64_t product1 = kMultiplier1 * counter[2];
    counter = {static_cast<uint32_t>(product1 >> 32) ^ counter[1] ^ key0, static_cast<uint32_t>(product1),
               static_cast<uint32_t>(product0 >> 32) ^ counter[3] ^ key1, static_cast<uint32_t>(product0)};
    key0 += kWeyl0;
    key1 += kWeyl1;
  }
  return counter;
}

// Uniform in [0, 1), 53 bits, for the token at `position` of output `output_index` of a request with `seed`.
constexpr double UniformAt(uint64_t seed, int32_t output_index, int32_t position) {
  const PhiloxBlock block =
      Philox4x32(seed, {static_cast<uint32_t>(position), static_cast<uint32_t>(output_index), 0, 0});
  const uint64_t bits = (static_cast<uint64_t>(block[0]) << 32) | block[1];
  return static_cast<double>(bits >> 11) * 0x1p-53;
}

}  // namespace dunlin::kernels

// SPDX-License-Identifier: Apache-2.0
// Counts shared-memory bank conflicts.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <set>

namespace dunlin::kernels::cuda {

// Cycles that the 32 banks of 4 bytes need to serve lanes that each access `bytes` at their address: at best 128 bytes
// per cycle. Identical words are read once.
template <typename Place>
int Turns(int first_lane, int lanes, int bytes, const Place& place) {
  std::array<std::set<int>, 32> words;
  for (int lane = first_lane; lane < first_lane + lanes; ++lane) {
    for (int byte = 0; byte < bytes; byte += 4) {
      const int word = (place(lane) + byte) / 4;
      words[static_cast<size_t>(word % 32)].insert(word);
    }
  }
  size_t most = 0;
  for (const std::set<int>& bank : words) most = std::max(most, bank.size());
  return static_cast<int>(most);
}

}  // namespace dunlin::kernels::cuda

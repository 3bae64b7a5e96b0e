// How long a warp waits for shared memory.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <set>

namespace dunlin::kernels::cuda {

// Turns that the 32 banks of 4 bytes take to serve lanes that each access `bytes` at their place: 128 bytes a turn at
// best. Equal words are read once.
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

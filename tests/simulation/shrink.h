// SPDX-License-Identifier: Apache-2.0
// A failing run with as few requests as it needs.
#pragma once

#include <algorithm>
#include <cstddef>
#include <utility>
#include <vector>

namespace dunlin::simulation {

// Indexes of requests, ascending, without which the run still fails and of which one more would make it pass. fails:
// whether the run without these fails.
template <typename Fails>
std::vector<size_t> Shrink(size_t num_requests, const Fails& fails) {
  std::vector<size_t> left_out;
  for (bool shrunk = true; shrunk;) {
    shrunk = false;
    for (size_t request = 0; request < num_requests; ++request) {
      std::vector<size_t> attempt = left_out;
      const auto place = std::lower_bound(attempt.begin(), attempt.end(), request);
      if (place != attempt.end() && *place == request) continue;
      attempt.insert(place, request);
      if (!fails(attempt)) continue;
      left_out = std::move(attempt);
      shrunk = true;
    }
  }
  return left_out;
}

}  // namespace dunlin::simulation

// SPDX-License-Identifier: Apache-2.0
// Mixes for the bit contract (docs/architecture.md): a response does not depend on its neighbours. Random mixes of
// requests on engines with little memory and small budgets give, request by request, the token ids and the bits of
// every log probability that the same request gives alone, on one thread, with room for everything and no prefix cache.
#pragma once

#include <cstdint>
#include <string>

#include "tests/integration/model/test_model.h"

namespace dunlin::engine {

struct MixCase {
  const char* name;
  std::string path;
  int num_mixes;
  int requests_per_profile;  // eighteen profiles: 4 make a library of 72 requests
  bool kv_fp8 = false;       // E4M3 pages for FP8, beside those of the other precisions in one pool
  bool eager = false;        // the mixes, not the requests alone
};
inline void PrintTo(const MixCase& test, std::ostream* out) {
  *out << test.name;
}

struct MixTotals {
  uint64_t requests = 0;
  uint64_t preemptions = 0;
  uint64_t prefix_hits = 0;
  uint64_t fp8_page_hits = 0;  // tokens found in E4M3 pages
};

// The five architectures' mixes in turn, then those with E4M3 pages: `plain` and `fp8` mixes of each.
std::vector<MixCase> GoldenMixCases(int plain, int fp8, int requests_per_profile = 4);

// Runs a case's mixes, up to the first that fails, and expects of each response what the head of this file describes.
// alone and together: the same model with all precisions, on one device or on two of one kind; every profile that the
// device takes is in the library. Adds to *totals.
void RunMixes(const Model& alone, const Model& together, const MixCase& test, MixTotals* totals);

}  // namespace dunlin::engine

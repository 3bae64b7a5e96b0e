// SPDX-License-Identifier: Apache-2.0
// The prompt of one request: made by a dataset, sent by a client.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace dunlin::tools::load {

struct Prompt {
  // Exactly one of the two is set.
  std::string text;
  std::vector<int32_t> token_ids;
  int32_t max_tokens = 1;  // >= 1
  // Generate max_tokens tokens even if end-of-sequence is sampled.
  bool ignore_eos = true;
};

}  // namespace dunlin::tools::load

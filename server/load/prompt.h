// What one request asks: made by a dataset, sent by a client.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace dunlin::server::load {

struct Prompt {
  // One of the two is filled.
  std::string text;
  std::vector<int32_t> token_ids;
  int32_t max_tokens = 1;  // >= 1
  // Keep generating up to max_tokens, whatever is drawn.
  bool ignore_eos = true;
};

}  // namespace dunlin::server::load

// One request inside the engine. Created by Submit on the caller's thread with all its memory; from then on touched by
// the engine thread alone.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "engine/types.h"

namespace dunlin::engine {

using PageId = int32_t;

enum class SequenceState : uint8_t { kWaiting, kRunning, kRetiring, kFinished };

struct Sequence {
  RequestId id = 0;
  Request request;
  std::shared_ptr<OutputSink> sink;

  std::vector<TokenId> tokens;   // prompt, then output; capacity prompt + max_tokens from the start
  int32_t prompt_len = 0;
  int32_t num_computed = 0;      // tokens whose K and V are in pages and committed
  int32_t num_in_flight = 0;     // tokens launched and not yet committed
  std::vector<PageId> pages;     // in order of position; capacity for the longest from the start
  int32_t tokens_per_page = 0;   // of its KV dtype

  SequenceState state = SequenceState::kWaiting;
  int32_t scored_prompt = 1;     // next prompt position to score when prompt_logprobs is on
  FinishInfo info;

  int32_t num_tokens() const { return static_cast<int32_t>(tokens.size()); }
  int32_t num_output() const { return num_tokens() - prompt_len; }
};

}  // namespace dunlin::engine

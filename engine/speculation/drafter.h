// SPDX-License-Identifier: Apache-2.0
// Guesses at the next tokens of a sequence. A wrong guess costs a row of a step and changes no output.
// Thread rule: one thread at a time: constructed on the thread that submits, from then on the engine thread.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "engine/request/types.h"

namespace dunlin::engine {

class Drafter {
 public:
  virtual ~Drafter() = default;
  // Appends at most `max_drafts` tokens that may follow `tokens`, the prompt and the output so far, in order; none
  // where it has no guess. `tokens` are those of the call before, or more. Allocates nothing where *drafts has room.
  virtual void Draft(std::span<const TokenId> tokens, int32_t max_drafts, std::vector<TokenId>* drafts) = 0;
};

// One row per kind of drafter.
struct DrafterTraits {
  const char* name;
  // For a sequence of this prompt that will have at most max_tokens tokens more.
  std::unique_ptr<Drafter> (*make)(std::span<const TokenId> prompt, int32_t max_tokens);
};
std::span<const DrafterTraits> DrafterTable();
// The drafter of requests that name none.
inline const DrafterTraits& DefaultDrafter() {
  return DrafterTable().front();
}

}  // namespace dunlin::engine

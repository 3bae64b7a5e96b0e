// SPDX-License-Identifier: Apache-2.0
// What an output must match, token by token: the engine's view of a grammar. text/grammar.h implements it. Knows
// nothing of batches, so a sequence's tokens do not depend on its neighbours.
#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "absl/status/status.h"

namespace dunlin::engine {

using TokenId = int32_t;

// How far one output has come. Thread rule: one thread at a time. Functions may take a millisecond, within bounds that
// the implementation sets.
class ConstraintState {
 public:
  virtual ~ConstraintState() = default;

  // Sets bit id % 32 of word id / 32 for each token that may come next, clears all others. Every end-of-sequence token
  // of the model has its bit set where the text may end. mask: kernels::MaskWords(vocab_size) words.
  // Errors: RESOURCE_EXHAUSTED (a bound of the computation); the state is then unusable.
  virtual absl::Status FillMask(std::span<uint32_t> mask) = 0;

  // Takes the next token of the output, which is not an end-of-sequence token. Errors: INVALID_ARGUMENT (not in the
  // mask), RESOURCE_EXHAUSTED; the state is then unusable.
  virtual absl::Status Accept(TokenId token) = 0;

  // The text so far is a complete match.
  virtual bool is_accepting() const = 0;

  // A state of the same text that goes on by itself. What ends the copy does not end this one. Until one of them is
  // destroyed, both count as one for the thread rule.
  virtual std::unique_ptr<ConstraintState> Clone() const = 0;
};

// Immutable; any number of threads at once.
class TokenConstraint {
 public:
  virtual ~TokenConstraint() = default;
  // The state of an output that has no token yet.
  virtual std::unique_ptr<ConstraintState> Start() const = 0;
};

}  // namespace dunlin::engine

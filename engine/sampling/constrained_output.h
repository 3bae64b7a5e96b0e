// SPDX-License-Identifier: Apache-2.0
// How far one constrained output has come, and which tokens may be drawn next. The mask that follows a drawn token is
// computed while the next step runs, by whoever claims it first: the engine's mask thread, or the engine thread when it
// is about to sample. Which of them it was changes nothing, so a simulation needs no thread.
//
// Where the mask holds a single token, that token is forced: the state goes on with it at once, until there is a choice
// again. The engine appends such a run behind its first token, which is drawn like any other.
//
// Owner: shared by the sequence, by the launched plans that draw from the mask, and by the mask thread while it has
// work to do, so that a sequence may end at any time.
// Thread rule: Compute on any thread, all else on the engine thread. Compute allocates what the constraint's state
// allocates; all else allocates nothing after construction.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "absl/status/status.h"
#include "engine/request/token_constraint.h"

namespace dunlin::engine {

class ConstrainedOutput {
 public:
  // Before the first token; not computed yet. max_forced: tokens of a run beyond the one that is drawn, >= 0.
  ConstrainedOutput(std::shared_ptr<const TokenConstraint> constraint, int32_t vocab_size, int32_t max_forced);

  // Computes what is left to compute, unless another thread has begun to.
  void Compute();
  // Computes it, or waits for the thread that does; bounded by the constraint's own limits.
  void Finish();
  bool is_computed() const { return phase_.load(std::memory_order_acquire) == kComputed; }

  // The tokens that may be drawn next: bit id % 32 of word id / 32. None when no token continues the output, or after
  // an error of the state. Valid until Take. REQUIRES: computed, and forced() has been taken.
  std::span<const uint32_t> mask() const;
  // Whether the output is complete without a further token. REQUIRES: computed.
  bool is_accepting() const;
  // The next token, where it follows without a draw. REQUIRES: computed.
  std::optional<TokenId> forced() const;
  // The output goes on with `token`, drawn from mask() or forced, and no end-of-sequence token. Compute has to follow
  // unless is_computed(). REQUIRES: computed.
  void Take(TokenId token);
  // The error that ended it, or OK. REQUIRES: computed.
  const absl::Status& status() const { return status_; }

 private:
  // Of phase_: kPending until a thread claims the computation.
  static constexpr int kComputed = 0;
  static constexpr int kPending = 1;
  static constexpr int kComputing = 2;

  void Run();
  // Fills masks_[index]; clears it after an error.
  void Fill(size_t index);
  void Accept(TokenId token);

  const std::shared_ptr<const TokenConstraint> constraint_;  // the state may refer to it
  const size_t max_run_;
  std::atomic<int> phase_{kPending};
  // Whose turn it is says phase_: the computing thread's, or the engine thread's.
  std::unique_ptr<ConstraintState> state_;
  std::optional<TokenId> taken_;                // not yet accepted by the state
  std::array<std::vector<uint32_t>, 2> masks_;  // of the next draw, and of the one after a run
  std::vector<TokenId> run_;                    // forced ones; the first is the only one in masks_[0]
  size_t num_taken_ = 0;                        // of run_
  bool accepting_ = false;                      // after the run; before its end a token is missing
  absl::Status status_;
};

}  // namespace dunlin::engine

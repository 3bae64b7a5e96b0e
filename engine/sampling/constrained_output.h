// SPDX-License-Identifier: Apache-2.0
// How far one constrained output has come, and which tokens may be drawn next. The mask that follows a drawn token is
// computed while the next step runs, by whoever claims it first: the engine's mask thread, or the engine thread when it
// is about to sample. Which of them it was changes nothing, so a simulation needs no thread.
//
// Where the mask holds a single token, that token is forced: the state goes on with it at once, until there is a choice
// again. The engine appends such a run behind its first token, which is drawn like any other.
//
// A step that verifies guesses draws behind each of them: their masks are computed by a copy of the state, up to the
// first guess that the constraint forbids. What is then drawn as guessed needs no further mask.
//
// Owner: shared by the sequence, by the launched plans that draw from the mask, and by the mask thread while it has
// work to do, so that a sequence may end at any time.
// Thread rule: Compute on any thread, all else on the engine thread. Compute allocates what the constraint's state
// allocates; all else allocates nothing after construction.
#pragma once

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
  // max_guesses: of one Follow, >= 0; each takes the memory of a mask.
  ConstrainedOutput(std::shared_ptr<const TokenConstraint> constraint, int32_t vocab_size, int32_t max_forced,
                    int32_t max_guesses = 0);

  // Computes what is left to compute, unless another thread has begun to.
  void Compute();
  // Computes it, or waits for the thread that does; bounded by the constraint's own limits.
  void Finish();
  bool is_computed() const { return phase_.load(std::memory_order_acquire) == kComputed; }

  // The masks behind these guesses at the next tokens are wanted as well: not computed any more. None of the guesses is
  // an end-of-sequence token. REQUIRES: those of an earlier Follow are computed.
  void Follow(std::span<const TokenId> guesses);

  // The tokens that may be drawn next or, with places > 0, behind so many of the guesses: bit id % 32 of word id / 32.
  // None when no token continues the output, or after an error of the state. Empty behind a guess that cannot be drawn,
  // and where the token is forced. Valid until Take. REQUIRES: computed, and forced() has been taken.
  std::span<const uint32_t> mask(size_t places = 0) const;
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
  // Of phase_: kPending until a thread claims the computation. kGuessed is added to them while guesses wait, too.
  static constexpr int kComputed = 0;
  static constexpr int kPending = 1;
  static constexpr int kComputing = 2;
  static constexpr int kGuessed = 4;

  // What a place of the path needs: of one that has a mask. A place is a number of tokens after the last known one.
  struct Place {
    std::vector<uint32_t> mask;
    bool accepting = false;
  };

  // Places with a mask: 0, the end of the run, and those behind guesses. Empty: another one, or beyond the path.
  std::optional<size_t> IndexOf(size_t place) const;
  // Goes on to the taken tokens, and from there as long as tokens are forced.
  void Run();
  void RunGuesses();
  // Fills places_[index] at the state; clears it after an error.
  void Fill(size_t index);
  void Accept(TokenId token);

  const std::shared_ptr<const TokenConstraint> constraint_;  // the states may refer to it
  const size_t max_run_;
  std::atomic<int> phase_{kPending};
  // Whose turn it is says phase_: the computing thread's, or the engine thread's.
  std::unique_ptr<ConstraintState> state_;  // at the end of the run
  bool moved_ = true;                       // tokens have been taken for which Run has to be called
  // Tokens that follow place 0: first num_forced_, of which the first is drawn and the others follow without, then
  // guesses that may be drawn. While moved_: those behind the run have been taken, and place 0 is behind them.
  std::vector<TokenId> path_;
  size_t num_forced_ = 0;
  size_t num_taken_ = 0;  // of path_
  std::vector<Place> places_;
  std::vector<TokenId> guesses_;  // of Follow, behind the taken ones: the engine thread's until kGuessed is set
  absl::Status status_;
};

}  // namespace dunlin::engine

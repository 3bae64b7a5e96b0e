// SPDX-License-Identifier: Apache-2.0
#include "engine/sampling/constrained_output.h"

#include <algorithm>
#include <bit>
#include <utility>

#include "engine/base/check.h"
#include "kernels/api/sampling.h"

namespace dunlin::engine {
namespace {

// Indices of ConstrainedOutput::places_: of the next draw, of the end of a run, and of the first guess.
constexpr size_t kNext = 0;
constexpr size_t kAfterRun = 1;
constexpr size_t kFirstGuess = 2;

// The token of a mask that holds one and no other.
std::optional<TokenId> OnlyToken(std::span<const uint32_t> mask) {
  const auto is_set = [](uint32_t word) { return word != 0; };
  const auto found = std::find_if(mask.begin(), mask.end(), is_set);
  if (found == mask.end() || !std::has_single_bit(*found) || std::any_of(found + 1, mask.end(), is_set)) return {};
  return static_cast<TokenId>((found - mask.begin()) * 32 + std::countr_zero(*found));
}

bool Allows(std::span<const uint32_t> mask, TokenId token) {
  const auto word = static_cast<size_t>(token) / 32;
  return word < mask.size() && (mask[word] >> (token % 32) & 1U) != 0;
}

}  // namespace

ConstrainedOutput::ConstrainedOutput(std::shared_ptr<const TokenConstraint> constraint, int32_t vocab_size,
                                     int32_t max_forced, int32_t max_guesses)
    : constraint_(std::move(constraint)),
      max_run_(max_forced == 0 ? 0 : static_cast<size_t>(max_forced) + 1),
      state_(constraint_->Start()),
      places_(kFirstGuess + static_cast<size_t>(max_guesses)) {
  for (Place& place : places_) place.mask.resize(static_cast<size_t>(kernels::MaskWords(vocab_size)));
  path_.reserve(max_run_ + static_cast<size_t>(max_guesses) + 1);
  guesses_.reserve(static_cast<size_t>(max_guesses));
}

void ConstrainedOutput::Compute() {
  int phase = phase_.load(std::memory_order_relaxed);
  do {
    if ((phase & kPending) == 0) return;
  } while (!phase_.compare_exchange_weak(phase, phase - kPending + kComputing, std::memory_order_acquire,
                                         std::memory_order_relaxed));
  if (moved_) Run();
  int expected = kComputing;
  if (!phase_.compare_exchange_strong(expected, kComputed, std::memory_order_acq_rel, std::memory_order_acquire)) {
    RunGuesses();
    phase_.store(kComputed, std::memory_order_release);
  }
  phase_.notify_all();
}

void ConstrainedOutput::Finish() {
  Compute();
  for (int phase = phase_.load(std::memory_order_acquire); phase != kComputed;) {
    phase_.wait(phase, std::memory_order_acquire);
    phase = phase_.load(std::memory_order_acquire);
  }
}

void ConstrainedOutput::Follow(std::span<const TokenId> guesses) {
  guesses_.assign(guesses.begin(), guesses.end());
  int phase = phase_.load(std::memory_order_acquire);
  while (!phase_.compare_exchange_weak(phase, (phase == kComputed ? kPending : phase) + kGuessed,
                                       std::memory_order_acq_rel, std::memory_order_acquire)) {
  }
}

void ConstrainedOutput::Run() {
  for (size_t i = num_forced_; i < path_.size(); ++i) Accept(path_[i]);
  path_.clear();
  num_forced_ = num_taken_ = 0;
  moved_ = false;
  Fill(kNext);
  // Where the text may end, its end may be drawn too, so that nothing is forced.
  for (size_t last = kNext; path_.size() < max_run_ && !places_[last].accepting; last = kAfterRun) {
    const std::optional<TokenId> only = OnlyToken(places_[last].mask);
    if (!only.has_value()) return;
    path_.push_back(*only);
    ++num_forced_;
    Accept(*only);
    Fill(kAfterRun);
  }
}

// Guesses that the run has are followed by it. An error of the copy is none of the output: it ends the path, and the
// state meets it again if the guess is drawn.
void ConstrainedOutput::RunGuesses() {
  path_.resize(std::max(num_forced_, num_taken_));
  if (num_taken_ > num_forced_) Run();  // a preemption came between the draws of a step
  const size_t of_run = num_forced_ - num_taken_;
  if (guesses_.size() <= of_run || !status_.ok()) return;
  const std::span<const TokenId> guesses(guesses_);
  if (!std::equal(guesses.begin(), guesses.begin() + static_cast<std::ptrdiff_t>(of_run),
                  path_.begin() + static_cast<std::ptrdiff_t>(num_taken_))) {
    return;
  }
  std::unique_ptr<ConstraintState> ahead;
  const Place* last = &places_[num_forced_ > 0 ? kAfterRun : kNext];
  for (const TokenId guess : guesses.subspan(of_run)) {
    if (!Allows(last->mask, guess)) return;
    if (ahead == nullptr) ahead = state_->Clone();
    Place& place = places_[kFirstGuess + path_.size() - num_forced_];
    if (!ahead->Accept(guess).ok() || !ahead->FillMask(place.mask).ok()) return;
    place.accepting = ahead->is_accepting();
    path_.push_back(guess);
    last = &place;
  }
}

void ConstrainedOutput::Accept(TokenId token) {
  if (status_.ok()) status_ = state_->Accept(token);
}

void ConstrainedOutput::Fill(size_t index) {
  Place& place = places_[index];
  if (status_.ok()) status_ = state_->FillMask(place.mask);
  if (!status_.ok()) std::fill(place.mask.begin(), place.mask.end(), 0U);
  place.accepting = status_.ok() && state_->is_accepting();
}

std::optional<size_t> ConstrainedOutput::IndexOf(size_t place) const {
  if (place > path_.size()) return {};
  if (place > num_forced_) return kFirstGuess + place - num_forced_ - 1;
  if (place == 0) return kNext;
  if (place == num_forced_) return kAfterRun;
  return {};
}

std::span<const uint32_t> ConstrainedOutput::mask(size_t places) const {
  DUNLIN_CHECK(is_computed() && !forced().has_value(), "a mask is read before it is computed");
  const std::optional<size_t> index = IndexOf(num_taken_ + places);
  return index.has_value() ? std::span<const uint32_t>(places_[*index].mask) : std::span<const uint32_t>();
}

bool ConstrainedOutput::is_accepting() const {
  DUNLIN_CHECK(is_computed(), "a constraint is asked before it is computed");
  const std::optional<size_t> index = IndexOf(num_taken_);
  return index.has_value() && places_[*index].accepting;
}

// The first of a run is drawn.
std::optional<TokenId> ConstrainedOutput::forced() const {
  DUNLIN_CHECK(is_computed(), "a constraint is asked before it is computed");
  if (num_taken_ == 0 || num_taken_ >= num_forced_) return {};
  return path_[num_taken_];
}

void ConstrainedOutput::Take(TokenId token) {
  DUNLIN_CHECK(is_computed(), "a token is taken before the one before it");
  if (num_taken_ < path_.size() && path_[num_taken_] == token) {
    ++num_taken_;
    return;
  }
  DUNLIN_CHECK(num_taken_ >= num_forced_, "a token outside the mask");
  path_.resize(num_taken_);
  path_.push_back(token);
  moved_ = true;
  phase_.store(kPending, std::memory_order_release);
}

}  // namespace dunlin::engine

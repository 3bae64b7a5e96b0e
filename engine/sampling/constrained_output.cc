// SPDX-License-Identifier: Apache-2.0
#include "engine/sampling/constrained_output.h"

#include <algorithm>
#include <bit>
#include <utility>

#include "engine/base/check.h"
#include "kernels/api/sampling.h"

namespace dunlin::engine {
namespace {

// The token of a mask that holds one and no other.
std::optional<TokenId> OnlyToken(std::span<const uint32_t> mask) {
  const auto is_set = [](uint32_t word) { return word != 0; };
  const auto found = std::find_if(mask.begin(), mask.end(), is_set);
  if (found == mask.end() || !std::has_single_bit(*found) || std::any_of(found + 1, mask.end(), is_set)) return {};
  return static_cast<TokenId>((found - mask.begin()) * 32 + std::countr_zero(*found));
}

}  // namespace

ConstrainedOutput::ConstrainedOutput(std::shared_ptr<const TokenConstraint> constraint, int32_t vocab_size,
                                     int32_t max_forced)
    : constraint_(std::move(constraint)),
      max_run_(max_forced == 0 ? 0 : static_cast<size_t>(max_forced) + 1),
      state_(constraint_->Start()) {
  for (std::vector<uint32_t>& mask : masks_) mask.resize(static_cast<size_t>(kernels::MaskWords(vocab_size)));
  run_.reserve(max_run_);
}

void ConstrainedOutput::Compute() {
  int expected = kPending;
  if (!phase_.compare_exchange_strong(expected, kComputing, std::memory_order_acquire, std::memory_order_relaxed)) {
    return;
  }
  Run();
  phase_.store(kComputed, std::memory_order_release);
  phase_.notify_all();
}

void ConstrainedOutput::Finish() {
  Compute();
  while (!is_computed()) phase_.wait(kComputing, std::memory_order_acquire);
}

void ConstrainedOutput::Run() {
  run_.clear();
  num_taken_ = 0;
  if (taken_.has_value()) Accept(*taken_);
  Fill(0);
  // Where the text may end, its end may be drawn too, so that nothing is forced.
  for (size_t last = 0; run_.size() < max_run_ && !accepting_; last = 1) {
    const std::optional<TokenId> only = OnlyToken(masks_[last]);
    if (!only.has_value()) return;
    run_.push_back(*only);
    Accept(*only);
    Fill(1);
  }
}

void ConstrainedOutput::Accept(TokenId token) {
  if (status_.ok()) status_ = state_->Accept(token);
}

void ConstrainedOutput::Fill(size_t index) {
  if (status_.ok()) status_ = state_->FillMask(masks_[index]);
  if (!status_.ok()) std::fill(masks_[index].begin(), masks_[index].end(), 0U);
  accepting_ = status_.ok() && state_->is_accepting();
}

std::span<const uint32_t> ConstrainedOutput::mask() const {
  DUNLIN_CHECK(is_computed() && !forced().has_value(), "a mask is read before it is computed");
  return masks_[num_taken_ > 0 ? 1 : 0];
}

bool ConstrainedOutput::is_accepting() const {
  DUNLIN_CHECK(is_computed(), "a constraint is asked before it is computed");
  return num_taken_ == run_.size() && accepting_;
}

// The first of a run is drawn.
std::optional<TokenId> ConstrainedOutput::forced() const {
  DUNLIN_CHECK(is_computed(), "a constraint is asked before it is computed");
  if (num_taken_ == 0 || num_taken_ == run_.size()) return {};
  return run_[num_taken_];
}

void ConstrainedOutput::Take(TokenId token) {
  DUNLIN_CHECK(is_computed(), "a token is taken before the one before it");
  if (num_taken_ < run_.size()) {
    DUNLIN_CHECK(run_[num_taken_] == token, "a token outside the mask");
    ++num_taken_;
    return;
  }
  taken_ = token;
  phase_.store(kPending, std::memory_order_release);
}

}  // namespace dunlin::engine

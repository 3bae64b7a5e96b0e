// SPDX-License-Identifier: Apache-2.0
// A constraint for tests: a small automaton. A place says which tokens may come next and whether the output is complete
// there; the next place follows from the token.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "engine/request/token_constraint.h"

namespace dunlin::simulation {

using engine::TokenId;

struct Place {
  std::vector<TokenId> allowed;  // without end-of-sequence tokens
  bool accepting = false;
  bool fails = false;    // FillMask gives an error here
  bool refuses = false;  // Accept gives one
};

class ScriptedConstraint : public engine::TokenConstraint {
 public:
  using Next = std::function<size_t(size_t place, TokenId token)>;

  ScriptedConstraint(std::vector<Place> places, std::vector<TokenId> eos_token_ids, Next next)
      : places_(std::move(places)), eos_token_ids_(std::move(eos_token_ids)), next_(std::move(next)) {}

  // One place after another, whatever the tokens; the last one stays.
  static std::shared_ptr<ScriptedConstraint> Chain(std::vector<Place> places, std::vector<TokenId> eos_token_ids) {
    const size_t last = places.size() - 1;
    return std::make_shared<ScriptedConstraint>(std::move(places), std::move(eos_token_ids),
                                                [last](size_t place, TokenId) { return std::min(place + 1, last); });
  }

  std::unique_ptr<engine::ConstraintState> Start() const override { return std::make_unique<State>(this); }

  // Called at the start of each FillMask, on whatever thread computes it.
  std::function<void()> on_fill = [] {};
  // Tokens accepted by all states.
  int64_t num_accepted() const { return num_accepted_.load(); }

 private:
  class State : public engine::ConstraintState {
   public:
    explicit State(const ScriptedConstraint* script) : script_(*script) {}

    absl::Status FillMask(std::span<uint32_t> mask) override {
      script_.on_fill();
      if (place().fails) return absl::ResourceExhaustedError("the place fails, as asked");
      std::fill(mask.begin(), mask.end(), 0U);
      const auto set = [mask](TokenId id) { mask[static_cast<size_t>(id) / 32] |= 1U << (id % 32); };
      for (const TokenId id : place().allowed) set(id);
      if (place().accepting) std::for_each(script_.eos_token_ids_.begin(), script_.eos_token_ids_.end(), set);
      return absl::OkStatus();
    }
    absl::Status Accept(TokenId token) override {
      script_.num_accepted_.fetch_add(1);
      const std::vector<TokenId>& allowed = place().allowed;
      if (std::find(allowed.begin(), allowed.end(), token) == allowed.end()) {
        return absl::InvalidArgumentError("the token is not in the mask");
      }
      if (place().refuses) return absl::ResourceExhaustedError("the place refuses, as asked");
      at_ = script_.next_(at_, token);
      return absl::OkStatus();
    }
    bool is_accepting() const override { return place().accepting; }
    std::unique_ptr<engine::ConstraintState> Clone() const override { return std::make_unique<State>(*this); }

   private:
    const Place& place() const { return script_.places_[at_]; }

    const ScriptedConstraint& script_;
    size_t at_ = 0;
  };

  const std::vector<Place> places_;
  const std::vector<TokenId> eos_token_ids_;
  const Next next_;
  mutable std::atomic<int64_t> num_accepted_{0};
};

}  // namespace dunlin::simulation

// SPDX-License-Identifier: Apache-2.0
#include "server/serving/generation/constraint_errors.h"

#include <cstdint>
#include <span>

#include "engine/base/string_view.h"

namespace dunlin::server {

class ConstraintErrors::State : public engine::ConstraintState {
 public:
  State(const ConstraintErrors& errors, std::unique_ptr<engine::ConstraintState> state)
      : errors_(errors), state_(std::move(state)) {}

  absl::Status FillMask(std::span<uint32_t> mask) override { return errors_.Keep(state_->FillMask(mask)); }
  absl::Status Accept(engine::TokenId token) override { return errors_.Keep(state_->Accept(token)); }
  bool is_accepting() const override { return state_->is_accepting(); }
  std::unique_ptr<engine::ConstraintState> Clone() const override { return state_->Clone(); }

 private:
  const ConstraintErrors& errors_;
  const std::unique_ptr<engine::ConstraintState> state_;
};

std::unique_ptr<engine::ConstraintState> ConstraintErrors::Start() const {
  return std::make_unique<State>(*this, constraint_->Start());
}

std::string ConstraintErrors::error() const {
  const absl::MutexLock lock(&mutex_);
  return error_;
}

absl::Status ConstraintErrors::Keep(absl::Status status) const {
  if (!status.ok()) {
    const absl::MutexLock lock(&mutex_);
    if (error_.empty()) error_ = engine::StdView(status.message());
  }
  return status;
}

}  // namespace dunlin::server

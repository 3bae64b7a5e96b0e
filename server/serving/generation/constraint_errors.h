// SPDX-License-Identifier: Apache-2.0
// Why a bound ended an output, which the engine's finish reason does not say: keeps the first error of a constraint.
// Thread rule: error() on any thread, all else as of engine::TokenConstraint.
#pragma once

#include <memory>
#include <string>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "engine/request/token_constraint.h"

namespace dunlin::server {

// Of one output: the constraint that it is given, and its state's errors. Outlives the state.
class ConstraintErrors : public engine::TokenConstraint {
 public:
  explicit ConstraintErrors(std::shared_ptr<const engine::TokenConstraint> constraint)
      : constraint_(std::move(constraint)) {}

  std::unique_ptr<engine::ConstraintState> Start() const override;
  // The first one's message; "": none. What copies of the state meet is none of the output.
  std::string error() const;

 private:
  class State;
  absl::Status Keep(absl::Status status) const;

  const std::shared_ptr<const engine::TokenConstraint> constraint_;
  mutable absl::Mutex mutex_;
  mutable std::string error_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace dunlin::server

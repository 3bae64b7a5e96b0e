// SPDX-License-Identifier: Apache-2.0
#include "server/serving/resolve/model_use.h"

#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/clock.h"
#include "engine/base/string_view.h"
#include "server/models/model_lifecycle.h"
#include "server/serving/record/errors.h"
#include "server/serving/resolve/model_changes.h"
#include "server/serving/resolve/profile_alias.h"

namespace dunlin::server {

struct ModelUse::Wait {
  absl::Mutex mutex;  // guards outcome, between the loader and the request
  std::optional<absl::Status> outcome ABSL_GUARDED_BY(mutex);
};

ModelUse::~ModelUse() {
  if (id_ != 0) core_.lifecycle()->EndUse(name_, id_);
}

absl::StatusOr<bool> ModelUse::Ready(const Principal& caller, const std::string& model) {
  if (wait_ == nullptr) return Begin(caller, model);
  std::optional<absl::Status> outcome;
  {
    absl::MutexLock lock(&wait_->mutex);
    outcome = wait_->outcome;
  }
  if (!outcome.has_value()) return false;
  wait_ = nullptr;
  if (!outcome->ok()) return Refused(caller, *outcome);
  return true;
}

absl::StatusOr<bool> ModelUse::Begin(const Principal& caller, const std::string& model) {
  const KnownModel known = FindKnown(core_, model);
  name_ = known.model;
  named_ = model;
  if (!caller.MayUse(known.name)) return true;
  const bool endless = deadline_ == engine::kNoDeadline;
  const absl::Time deadline =
      endless ? absl::InfiniteFuture() : absl::Now() + absl::Nanoseconds(deadline_ - core_.now());
  auto wait = std::make_shared<Wait>();
  const absl::StatusOr<ModelLifecycle::Use> use =
      core_.lifecycle()->BeginUse(name_, deadline, [wait, resume = resume_](const absl::Status& outcome) {
        {
          absl::MutexLock lock(&wait->mutex);
          wait->outcome = outcome;
        }
        resume();
      });
  if (!use.ok()) return Refused(caller, use.status());
  id_ = use->id;
  if (!use->ready) wait_ = std::move(wait);
  return use->ready;
}

absl::Status ModelUse::Refused(const Principal& caller, const absl::Status& why) const {
  const int32_t retry_after_ms = core_.limits().retry_after_ms;
  if (absl::IsAborted(why)) {
    return Overloaded(Reason::kQueueFull, engine::StdView(why.message()), "scheduler.max_queued_requests",
                      retry_after_ms);
  }
  if (absl::IsDeadlineExceeded(why)) {
    return ModelNotServed(name_, "is still being loaded (models[].load_wait_ms)", retry_after_ms);
  }
  return NotServed(core_, caller, named_);
}

}  // namespace dunlin::server

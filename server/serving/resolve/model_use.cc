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
  absl::Mutex mutex;  // guards what follows, between the loader and the request
  std::optional<absl::Status> outcome ABSL_GUARDED_BY(mutex);
  engine::AdapterLease lease ABSL_GUARDED_BY(mutex);
};

ModelUse::~ModelUse() {
  if (id_ != 0) core_.lifecycle()->EndUse(name_, id_);
  if (adapter_id_ != 0) core_.lifecycle()->EndUse(name_, adapter_id_);
}

absl::StatusOr<bool> ModelUse::Ready(const Principal& caller, const std::string& model) {
  if (wait_ == nullptr) return Begin(caller, model);
  std::optional<absl::Status> outcome;
  {
    absl::MutexLock lock(&wait_->mutex);
    outcome = wait_->outcome;
    lease_ = std::move(wait_->lease);
  }
  if (!outcome.has_value()) return false;
  wait_ = nullptr;
  if (!outcome->ok()) return Refused(caller, *outcome);
  return adapter_id_ != 0 ? true : BeginAdapter(caller);
}

absl::Time ModelUse::Deadline() const {
  if (deadline_ == engine::kNoDeadline) return absl::InfiniteFuture();
  return absl::Now() + absl::Nanoseconds(deadline_ - core_.now());
}

absl::StatusOr<bool> ModelUse::Begin(const Principal& caller, const std::string& model) {
  const KnownModel known = FindKnown(core_, model);
  name_ = known.model;
  named_ = model;
  if (!caller.MayUse(known.name)) return true;
  if (known.name != known.model) adapter_ = known.name;
  auto wait = std::make_shared<Wait>();
  const absl::StatusOr<ModelLifecycle::Use> use =
      core_.lifecycle()->BeginUse(name_, Deadline(), [wait, resume = resume_](const absl::Status& outcome) {
        {
          absl::MutexLock lock(&wait->mutex);
          wait->outcome = outcome;
        }
        resume();
      });
  if (!use.ok()) return Refused(caller, use.status());
  id_ = use->id;
  if (use->ready) return BeginAdapter(caller);
  wait_ = std::move(wait);
  return false;
}

absl::StatusOr<bool> ModelUse::BeginAdapter(const Principal& caller) {
  if (adapter_.empty()) return true;
  auto wait = std::make_shared<Wait>();
  absl::StatusOr<ModelLifecycle::AdapterUse> use = core_.lifecycle()->BeginAdapterUse(
      name_, adapter_, Deadline(), [wait, resume = resume_](absl::StatusOr<engine::AdapterLease> lease) {
        {
          absl::MutexLock lock(&wait->mutex);
          wait->outcome = lease.status();
          if (lease.ok()) wait->lease = *std::move(lease);
        }
        resume();
      });
  if (!use.ok()) return Refused(caller, use.status());
  adapter_id_ = use->id;
  lease_ = std::move(use->lease);
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
    const bool adapter = adapter_id_ != 0;
    return ModelNotServed(adapter ? adapter_ : name_,
                          adapter ? "waits for adapters that others use (models[].max_adapters, models[].load_wait_ms)"
                                  : "is still being loaded (models[].load_wait_ms)",
                          retry_after_ms);
  }
  if (adapter_id_ != 0 && !absl::IsUnavailable(why) && !absl::IsNotFound(why)) {
    return ModelNotServed(adapter_, "could not be loaded", retry_after_ms);
  }
  return NotServed(core_, caller, named_);
}

}  // namespace dunlin::server

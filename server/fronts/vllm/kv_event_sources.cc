// SPDX-License-Identifier: Apache-2.0
#include "server/fronts/vllm/kv_event_sources.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "server/fronts/vllm/kv_event_payload.h"
#include "server/serving/record/errors.h"

namespace dunlin::server {

absl::Status VllmKvEventSources::Publish(const std::string& model, const EventPublisherOptions& options) {
  const ModelLease lease = core_->Lease(model);
  if (lease == nullptr) return UnknownModel(model);
  std::shared_ptr<engine::KvEventLog> log = lease->engine == nullptr ? nullptr : lease->engine->kv_events();
  if (log == nullptr) {
    return absl::FailedPreconditionError(absl::StrCat(
        "model \"", model, "\" records no KV events: models[].kv_cache.event_batches is 0, or it is an encoder"));
  }
  absl::StatusOr<std::unique_ptr<EventPublisher>> publisher =
      EventPublisher::Start(options, std::move(log), core_->clock(), &KvEventPayload);
  if (!publisher.ok()) return publisher.status();
  absl::MutexLock lock(&mutex_);
  publishers_[model] = *std::move(publisher);
  return absl::OkStatus();
}

void VllmKvEventSources::Stop(const std::string& model) {
  std::unique_ptr<EventPublisher> stopped;  // joins its thread when the lock is released
  {
    absl::MutexLock lock(&mutex_);
    const auto found = publishers_.find(model);
    if (found == publishers_.end()) return;
    stopped = std::move(found->second);
    publishers_.erase(found);
  }
}

std::optional<EventPublisherOptions> VllmKvEventSources::Of(const std::string& model) const {
  absl::MutexLock lock(&mutex_);
  const auto found = publishers_.find(model);
  if (found == publishers_.end()) return std::nullopt;
  return found->second->options();
}

}  // namespace dunlin::server

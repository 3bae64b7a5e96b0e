// SPDX-License-Identifier: Apache-2.0
// The publishers of KV events, one for each model that has one configured. Thread rule: any thread.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "server/serving/core/serving_core.h"
#include "server/transport/zmq/event_publisher.h"

namespace dunlin::server {

class VllmKvEventSources {
 public:
  // core outlives this object.
  explicit VllmKvEventSources(const ServingCore* core) : core_(core) {}

  // Publishes the events of a model that is served, from now on. Errors: as EventPublisher::Start; NOT_FOUND;
  // FAILED_PRECONDITION when the model records none.
  absl::Status Publish(const std::string& model, const EventPublisherOptions& options);
  // No-op for a model whose events are not published.
  void Stop(const std::string& model);
  // Where a model's are published, with the actual ports; none if they are not.
  std::optional<EventPublisherOptions> Of(const std::string& model) const;

 private:
  const ServingCore* const core_;
  mutable absl::Mutex mutex_;  // guards the map
  std::map<std::string, std::unique_ptr<EventPublisher>> publishers_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace dunlin::server

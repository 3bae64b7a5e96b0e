// SPDX-License-Identifier: Apache-2.0
// Everything that `dunlin serve` owns, in order of construction. Thread rule: the main thread, but for `phase` and for
// what says otherwise itself.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "server/access/access_control.h"
#include "server/access/key_file.h"
#include "server/config/config.h"
#include "server/edge/edge.h"
#include "server/edge/observers.h"
#include "server/models/devices.h"
#include "server/models/model_lifecycle.h"
#include "server/models/repository.h"
#include "server/models/watchdog.h"
#include "server/observe/logging/logging.h"
#include "server/observe/metrics/server_metrics.h"
#include "server/observe/tracing/span_exporter.h"
#include "server/process/monotonic_clock.h"
#include "server/process/service_notifier.h"
#include "server/transport/tls/certificate_store.h"

namespace dunlin::server {

struct Server {
  enum class Phase : uint8_t { kLoading, kServing, kDraining };

  // exporter: null for none.
  Server(const Config& config, std::unique_ptr<SpanExporter> exporter)
      : spans(std::move(exporter)),
        observer({&log, &metrics, spans.get()}),
        devices(config.device),
        watchdog(&MonotonicNs, config.stall_ms * 1'000'000),
        lifecycle(&repository, &loading, Hooks(), absl::Milliseconds(config.drain_timeout_ms)) {
    if (spans != nullptr) {
      metrics.WatchTracing([this] {
        const SpanExporter::Counts counts = spans->counts();
        return TracingSnapshot{counts.exported, counts.dropped};
      });
    }
    metrics.WatchModels([this] { return watchdog.WithHealth(lifecycle.List()); });
    repository.Subscribe(&metrics);
    repository.Subscribe(&watchdog);
  }
  // Before anything that the loader uses or the watchdog polls is destroyed.
  ~Server() {
    lifecycle.Stop();
    watchdog.Stop();
  }
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;

  LifecycleHooks Hooks() {
    return {[this](const std::string& model) { return metrics.AddModel(model); },
            [this](const std::string& model) { metrics.OnModelRemoved(model); },
            [this](const ModelSettings& settings) { return PublishKvEvents(settings); }};
  }

  absl::Status PublishKvEvents(const ModelSettings& settings) {
    const KvEventSettings& events = settings.kv_events;
    if (events.endpoint.empty()) return absl::OkStatus();
    return edge.PublishKvEvents(settings.name, {events.endpoint, events.replay_endpoint, events.topic, events.hwm});
  }

  // Why requests are not taken; empty if they are. Any thread.
  std::string unready_reason() const {
    if (phase == Phase::kLoading) return "loading";
    return phase == Phase::kDraining ? "draining" : watchdog.unhealthy_reason();
  }

  AuditLog audit;
  AccessControl access{&audit};
  std::optional<KeyFile> keys;  // unset: no keys are asked for
  RequestLog log;
  CutLog cuts;
  ServerMetrics metrics;
  const std::unique_ptr<SpanExporter> spans;  // null: no tracing
  ObserverList observer;
  Devices devices;  // shared by all models
  DeviceModelLoading loading{&devices, "/proc/self/exe"};
  Watchdog watchdog;
  ModelRepository repository;
  ModelLifecycle lifecycle;
  std::atomic<Phase> phase{Phase::kLoading};
  ServiceNotifier notifier;
  std::unique_ptr<CertificateStore> certificates;  // null: no TLS
  Edge edge;                                       // destroyed first, because its HTTP port reads all of the above
};

}  // namespace dunlin::server

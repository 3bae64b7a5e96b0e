// SPDX-License-Identifier: Apache-2.0
// Every metric, one row each: name, help, type, buckets, and how its value is obtained. ServerMetrics creates, updates
// and renders the metrics in this table. tests/server/observe/metrics/metric_names.txt lists their names; the table in
// docs/operations.md and the Grafana dashboard are checked against it.
// The vllm:* names make the server work with existing dashboards and routers; intervals are defined as in vLLM: QUEUED
// to first SCHEDULED is queue, SCHEDULED to first token is prefill, first to last token is decode.
// Source: vLLM's metrics design document.
#pragma once

#include <cstdint>
#include <limits>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>

#include "engine/request/model_engine.h"
#include "server/access/access_control.h"
#include "server/models/model_state.h"
#include "server/observe/metrics/process_stats.h"
#include "server/serving/record/request_record.h"
#include "server/transport/rpc_observer.h"

namespace dunlin::server {

enum class MetricType : unsigned char { kCounter, kGauge, kHistogram };

using MetricLabels = std::map<std::string, std::string>;

struct StepSample {
  int32_t num_tokens = 0;
  engine::TimeNs duration = 0;
};

inline constexpr double kNoValue = std::numeric_limits<double>::quiet_NaN();

struct EdgeSnapshot {
  bool ready = false;  // accepts requests: neither loading nor stalled nor draining
  int32_t requests_in_flight = 0;
  int64_t queued_bytes = 0;                    // size of the requests accepted but not yet tokenised
  double certificate_expires_in_s = kNoValue;  // negative: it has expired; kNoValue: no TLS
  uint64_t certificate_reloads = 0;
  uint64_t certificate_reload_failures = 0;
  AccessStats access;
  uint64_t connections_cut = 0;  // of the gRPC port, for the calls that they did not see through
};

struct TracingSnapshot {
  uint64_t spans_exported = 0;
  uint64_t spans_dropped = 0;
};

// A response of the HTTP port, once its head is sent.
struct HttpResponse {
  std::string_view route;  // its path as in the table of routes; "other" if no route has the path
  int status = 0;
};

struct ServerSnapshot {
  EdgeSnapshot edge;
  TracingSnapshot tracing;
  double start_time_s = 0;  // since 1970
  HeapSize heap;
};

// Per model, label model_name.
struct EngineValue {  // read at each scrape
  double (*value)(const engine::EngineStats& stats);
};
struct DraftPositionValue {  // read at each scrape, label position: a place among the drafts of a step, from 0 on
  double (*value)(const engine::EngineStats& stats, size_t position);
};
struct StepValue {  // observed after each engine step
  double (*value)(const StepSample& step);
};
struct TokenIntervalValue {  // observed for each pair of consecutive tokens of an output
  double (*value)(engine::TimeNs interval);
  bool by_profile = false;  // further labels: attention_backend, precision
};
struct RequestValue {  // observed for each call that ended OK; nullopt: does not apply to this call
  std::optional<double> (*value)(const RequestRecord& record);
  bool by_profile = false;  // as above
};
struct ModelRequestCount {  // counts calls that ended OK, by further labels
  MetricLabels (*labels)(const RequestRecord& record);
};

// Per model that the server knows, served or not, label model_name.
struct ModelStatusValue {  // read at each scrape
  double (*value)(const ModelStatus& status);
  MetricLabels (*labels)(const ModelStatus& status) = nullptr;  // further ones; null: none
  bool (*applies)(const ModelStatus& status) = nullptr;         // null: to every model
};

// Over all models.
struct RequestCount {  // counts every call by labels; nullopt: not counted
  std::optional<MetricLabels> (*labels)(const RequestRecord& record);
};
struct HttpResponseCount {  // counts every response of the HTTP port by labels
  MetricLabels (*labels)(const HttpResponse& response);
};
struct IgnoredCount {  // counts what requests had without effect, by labels; route: one of a fixed set
  MetricLabels (*labels)(std::string_view route);
};
struct ServerValue {  // read at each scrape; kNoValue: has no series now
  double (*value)(const ServerSnapshot& server);
};
struct RpcStarted {};  // counts the RPCs of the gRPC port, label grpc_method
struct RpcValue {      // observed for each RPC that ended, labels grpc_method and grpc_status
  double (*value)(const RpcEnd& end);
};
struct Info {  // constant 1
  MetricLabels (*labels)();
};

using MetricSource = std::variant<EngineValue, DraftPositionValue, StepValue, TokenIntervalValue, RequestValue,
                                  ModelRequestCount, ModelStatusValue, RequestCount, HttpResponseCount, IgnoredCount,
                                  ServerValue, RpcStarted, RpcValue, Info>;

struct Metric {
  const char* name;
  const char* help;
  MetricType type;
  MetricSource source;
  std::span<const double> buckets = {};  // kHistogram: upper edges
};

std::span<const Metric> Metrics();

}  // namespace dunlin::server

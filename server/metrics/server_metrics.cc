#include "server/metrics/server_metrics.h"

#include <prometheus/gauge.h>
#include <prometheus/text_serializer.h>

#include <chrono>
#include <iterator>
#include <utility>

#include "server/metrics/engine_series.h"
#include "server/metrics/metric_table.h"
#include "server/metrics/model_metrics.h"
#include "server/status_name.h"
#include "server/version.h"

namespace dunlin::server {
namespace {

double SecondsSince1970() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

void Append(std::vector<prometheus::MetricFamily> more, std::vector<prometheus::MetricFamily>* families) {
  families->insert(families->end(), std::make_move_iterator(more.begin()), std::make_move_iterator(more.end()));
}

}  // namespace

ServerMetrics::ServerMetrics(const std::vector<std::string>& model_names)
    : requests_(&prometheus::BuildCounter().Name(kRequests.name).Help(kRequests.help).Register(registry_)),
      refusals_(&prometheus::BuildCounter().Name(kRefusals.name).Help(kRefusals.help).Register(registry_)),
      start_time_s_(SecondsSince1970()) {
  for (const std::string& name : model_names) models_[name] = std::make_unique<ModelMetrics>(name, &registry_);
  auto& build = prometheus::BuildGauge().Name(kBuildInfo.name).Help(kBuildInfo.help).Register(registry_);
  build.Add({{"version", kVersion}}).Set(1);
}

ServerMetrics::~ServerMetrics() = default;

engine::StepObserver* ServerMetrics::step_observer(const std::string& model_name) {
  return models_.find(model_name)->second.get();
}

void ServerMetrics::Watch(const std::string& model_name, const engine::ModelEngine* engine) {
  absl::MutexLock lock(&mutex_);
  watched_.push_back({model_name, engine});
}

void ServerMetrics::WatchEdge(std::function<EdgeSnapshot()> edge) {
  absl::MutexLock lock(&mutex_);
  edge_ = std::move(edge);
}

void ServerMetrics::OnTokenInterval(const std::string& model, engine::TimeNs interval) {
  if (const auto found = models_.find(model); found != models_.end()) found->second->OnTokenInterval(interval);
}

void ServerMetrics::OnFinished(const RequestRecord& record) {
  const bool ran = record.profile.has_value();
  requests_
      ->Add({{"attention_backend", ran ? Name(record.profile->attention_backend) : "none"},
             {"precision", ran ? Name(record.profile->precision) : "none"},
             {"status", StatusName(record.status.code())}})
      .Increment();
  if (!record.refusal_reason.empty()) refusals_->Add({{"reason", record.refusal_reason}}).Increment();
  if (!record.status.ok()) return;
  if (const auto found = models_.find(record.model); found != models_.end()) found->second->OnServed(record);
}

std::string ServerMetrics::Render() const {
  std::vector<prometheus::MetricFamily> families = registry_.Collect();
  std::vector<EngineSnapshot> engines;
  EdgeSnapshot edge;
  {
    absl::MutexLock lock(&mutex_);
    for (const Watched& watched : watched_) engines.push_back({watched.model_name, watched.engine->stats()});
    if (edge_) edge = edge_();
  }
  Append(EngineSeries(engines), &families);
  Append(EdgeSeries(edge), &families);
  Append(ProcessSeries(start_time_s_), &families);
  return prometheus::TextSerializer().Serialize(families);
}

}  // namespace dunlin::server

#include "server/metrics/server_metrics.h"

#include <prometheus/gauge.h>
#include <prometheus/text_serializer.h>

#include <iterator>

#include "server/metrics/engine_series.h"
#include "server/metrics/metric_table.h"
#include "server/metrics/model_metrics.h"
#include "server/status_name.h"
#include "server/version.h"

namespace dunlin::server {

ServerMetrics::ServerMetrics(const std::vector<std::string>& model_names)
    : requests_(&prometheus::BuildCounter().Name(kRequests.name).Help(kRequests.help).Register(registry_)),
      refusals_(&prometheus::BuildCounter().Name(kRefusals.name).Help(kRefusals.help).Register(registry_)) {
  for (const std::string& name : model_names) models_[name] = std::make_unique<ModelMetrics>(name, &registry_);
  auto& build = prometheus::BuildGauge().Name(kBuildInfo.name).Help(kBuildInfo.help).Register(registry_);
  build.Add({{"version", kVersion}}).Set(1);
}

ServerMetrics::~ServerMetrics() = default;

engine::StepObserver* ServerMetrics::step_observer(const std::string& model_name) {
  return models_.find(model_name)->second.get();
}

void ServerMetrics::Watch(const std::string& model_name, const engine::ModelEngine* engine) {
  watched_.push_back({model_name, engine});
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
  for (const Watched& watched : watched_) engines.push_back({watched.model_name, watched.engine->stats()});
  std::vector<prometheus::MetricFamily> series = EngineSeries(engines);
  families.insert(families.end(), std::make_move_iterator(series.begin()), std::make_move_iterator(series.end()));
  return prometheus::TextSerializer().Serialize(families);
}

}  // namespace dunlin::server

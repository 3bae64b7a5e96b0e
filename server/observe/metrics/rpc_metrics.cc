// SPDX-License-Identifier: Apache-2.0
#include "server/observe/metrics/rpc_metrics.h"

#include <prometheus/histogram.h>

#include <array>
#include <atomic>
#include <utility>
#include <vector>

#include "engine/base/status_name.h"
#include "server/observe/metrics/metric_table.h"

namespace dunlin::server {
namespace {

constexpr char kMethod[] = "grpc_method";
constexpr char kStatus[] = "grpc_status";
constexpr size_t kNumCodes = 17;  // of gRPC

// The histograms of one method and one status, by row of Metrics(); null for rows without an RpcValue.
using Histograms = std::vector<std::unique_ptr<prometheus::Histogram>>;

Histograms NewHistograms() {
  Histograms histograms;
  for (const Metric& metric : Metrics()) {
    const bool observed = std::holds_alternative<RpcValue>(metric.source);
    histograms.push_back(observed ? std::make_unique<prometheus::Histogram>(prometheus::Histogram::BucketBoundaries(
                                        metric.buckets.begin(), metric.buckets.end()))
                                  : nullptr);
  }
  return histograms;
}

}  // namespace

class RpcMetrics::Method final : public RpcMethodObserver {
 public:
  void OnStarted() override { num_started_.fetch_add(1, std::memory_order_relaxed); }

  void OnEnded(const RpcEnd& end) override {
    const auto code = static_cast<size_t>(end.status);
    const Histograms& histograms = *OfStatus(code < kNumCodes ? code : static_cast<size_t>(absl::StatusCode::kUnknown));
    for (size_t row = 0; row < histograms.size(); ++row) {
      if (histograms[row] == nullptr) continue;
      histograms[row]->Observe(std::get<RpcValue>(Metrics()[row].source).value(end));
    }
  }

  void Collect(size_t row, const std::string& name, prometheus::MetricFamily* family) const {
    if (std::holds_alternative<RpcStarted>(Metrics()[row].source)) {
      prometheus::ClientMetric& sample = family->metric.emplace_back();
      sample.label = {{kMethod, name}};
      sample.counter.value = static_cast<double>(num_started_.load(std::memory_order_relaxed));
      return;
    }
    for (size_t code = 0; code < kNumCodes; ++code) {
      const Histograms* histograms = by_status_[code].load(std::memory_order_acquire);
      if (histograms == nullptr) continue;
      family->metric.push_back((*histograms)[row]->Collect());
      family->metric.back().label = {{kMethod, name},
                                     {kStatus, engine::StatusName(static_cast<absl::StatusCode>(code))}};
    }
  }

 private:
  const Histograms* OfStatus(size_t code) {
    if (const Histograms* made = by_status_[code].load(std::memory_order_acquire); made != nullptr) return made;
    absl::MutexLock lock(&mutex_);
    if (made_[code] == nullptr) made_[code] = std::make_unique<const Histograms>(NewHistograms());
    by_status_[code].store(made_[code].get(), std::memory_order_release);
    return made_[code].get();
  }

  std::atomic<uint64_t> num_started_{0};
  std::array<std::atomic<const Histograms*>, kNumCodes> by_status_{};  // of made_; null before the first such call
  absl::Mutex mutex_;                                                  // guards made_, while one is made
  std::array<std::unique_ptr<const Histograms>, kNumCodes> made_ ABSL_GUARDED_BY(mutex_);
};

RpcMetrics::RpcMetrics() = default;
RpcMetrics::~RpcMetrics() = default;

RpcMethodObserver* RpcMetrics::ForMethod(const std::string& name) {
  absl::MutexLock lock(&mutex_);
  std::unique_ptr<Method>& method = methods_[name];
  if (method == nullptr) method = std::make_unique<Method>();
  return method.get();
}

void RpcMetrics::Collect(size_t row, prometheus::MetricFamily* family) const {
  absl::MutexLock lock(&mutex_);
  for (const auto& [name, method] : methods_) method->Collect(row, name, family);
}

}  // namespace dunlin::server

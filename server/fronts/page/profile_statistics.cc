// SPDX-License-Identifier: Apache-2.0
#include "server/fronts/page/profile_statistics.h"

#include <algorithm>
#include <nlohmann/json.hpp>

namespace dunlin::server::page {
namespace {

using Json = nlohmann::ordered_json;

constexpr double kFirstEdgeMs = 0.05;
constexpr double kEdgeRatio = 1.25;
constexpr double kNsPerMs = 1e6;

constexpr std::array<double, TimeHistogram::kNumEdges> kEdgesMs = [] {
  std::array<double, TimeHistogram::kNumEdges> edges{};
  double edge = kFirstEdgeMs;
  for (double& value : edges) {
    value = edge;
    edge *= kEdgeRatio;
  }
  return edges;
}();

}  // namespace

double TimeHistogram::EdgeMs(size_t i) {
  return kEdgesMs[i];
}

void TimeHistogram::Add(engine::TimeNs time) {
  const double ms = static_cast<double>(time) / kNsPerMs;
  const auto* const bucket = std::lower_bound(kEdgesMs.begin(), kEdgesMs.end(), ms);
  ++counts_[static_cast<size_t>(bucket - kEdgesMs.begin())];
}

void ProfileStatistics::OnTokenInterval(const std::string& model, const engine::ExecutionProfile& profile,
                                        engine::TimeNs interval) {
  absl::MutexLock lock(&mutex_);
  counts_[model][{profile.attention_backend, profile.precision}].itl.Add(interval);
}

void ProfileStatistics::OnFinished(const RequestRecord& record) {
  const bool generated = record.status.ok() && record.num_inputs == 0 && record.first_token != 0;
  if (!generated || !record.profile.has_value() || models_.Lease(record.model) == nullptr) return;
  const int32_t further_tokens = record.completion_tokens / std::max(record.num_outputs, 1) - 1;
  absl::MutexLock lock(&mutex_);
  Counts& counts = counts_[record.model][{record.profile->attention_backend, record.profile->precision}];
  ++counts.requests;
  counts.output_tokens += static_cast<uint64_t>(std::max(record.completion_tokens, 0));
  counts.ttft.Add(record.first_token - record.arrival);
  if (further_tokens > 0) counts.per_token.Add((record.finished - record.first_token) / further_tokens);
}

std::string ProfileStatistics::Document(std::span<const ModelLease> models) const {
  Json document = {{"edges_ms", kEdgesMs}, {"models", Json::array()}};
  absl::MutexLock lock(&mutex_);
  for (const ModelLease& model : models) {
    Json profiles = Json::array();
    if (const auto found = counts_.find(model->name); found != counts_.end()) {
      for (const auto& [profile, counts] : found->second) {
        if (counts.requests == 0) continue;
        profiles.push_back({{"attention_backend", Name(profile.first)},
                            {"precision", Name(profile.second)},
                            {"requests", counts.requests},
                            {"output_tokens", counts.output_tokens},
                            {"ttft", counts.ttft.counts()},
                            {"itl", counts.itl.counts()},
                            {"per_token", counts.per_token.counts()}});
      }
    }
    document["models"].push_back({{"name", model->name}, {"profiles", std::move(profiles)}});
  }
  return document.dump();
}

}  // namespace dunlin::server::page

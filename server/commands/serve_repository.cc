// SPDX-License-Identifier: Apache-2.0
#include "server/commands/serve_repository.h"

#include <spdlog/spdlog.h>

#include <utility>

#include "absl/algorithm/container.h"
#include "absl/time/clock.h"
#include "server/config/model_folder.h"

namespace dunlin::server {

void WarnOfLeftOut(const std::vector<std::string>& before, const Config& now) {
  for (const std::string& path : now.left_out_of_repository) {
    if (absl::c_linear_search(before, path)) continue;
    spdlog::warn("model_repository: {} is left out: its name is not UTF-8", path);
  }
}

std::string RepositoryWatch::StampNow(const Config& running) {
  if (running.model_repository.empty()) return {};
  ModelPaths served;
  for (const ModelSettings& model : running.models) served[model.name] = model.source.path;
  return StampOf(
      FindModels(running.model_repository, absl::Seconds(running.model_repository_settle_s), absl::Now(), &served));
}

std::optional<absl::StatusOr<Config>> RepositoryWatch::Poll(const Config& running) {
  const absl::Duration period = absl::Seconds(running.model_repository_poll_s);
  if (running.model_repository.empty() || period == absl::ZeroDuration()) return std::nullopt;
  if (absl::Now() < looked_ + period) return std::nullopt;
  looked_ = absl::Now();
  const std::string before = std::exchange(stamp_, StampNow(running));
  if (stamp_ == before) return std::nullopt;
  return WithRepository(running, running.models);
}

}  // namespace dunlin::server

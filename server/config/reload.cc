// SPDX-License-Identifier: Apache-2.0
#include "server/config/reload.h"

#include <map>

namespace dunlin::server {
namespace {

// A key, and the function that applies it to the running config.
struct ReloadableKey {
  const char* path;
  void (*take)(const Config& from, Config* to);
};

constexpr ReloadableKey kReloadable[] = {
    {"log.level", [](const Config& from, Config* to) { to->log_level = from.log_level; }},
    {"model_repository.path", [](const Config& from, Config* to) { to->model_repository = from.model_repository; }},
    {"model_repository.poll_s",
     [](const Config& from, Config* to) { to->model_repository_poll_s = from.model_repository_poll_s; }},
    {"model_repository.settle_s",
     [](const Config& from, Config* to) { to->model_repository_settle_s = from.model_repository_settle_s; }},
    {"limits.drain_timeout_ms", [](const Config& from, Config* to) { to->drain_timeout_ms = from.drain_timeout_ms; }},
};

constexpr char kModels[] = "models.";

bool Take(const std::string& key, const Config& loaded, ReloadResult* result) {
  if (key.starts_with(kModels)) {
    const auto value = loaded.values.find(key);
    if (value == loaded.values.end()) {
      result->config.values.erase(key);
    } else {
      result->config.values[key] = value->second;
    }
    return true;
  }
  for (const ReloadableKey& row : kReloadable) {
    if (key != row.path) continue;
    row.take(loaded, &result->config);
    result->config.values[key] = loaded.values.at(key);
    return true;
  }
  return false;
}

}  // namespace

ReloadResult TakeReloadable(const Config& running, const Config& loaded) {
  ReloadResult result{running, {}, {}};
  result.config.models = loaded.models;
  result.config.without_repository = loaded.without_repository;
  result.config.left_out_of_repository = loaded.left_out_of_repository;
  // Keys of both, so that an added or removed model shows too.
  std::map<std::string, std::string> keys = running.values;
  keys.insert(loaded.values.begin(), loaded.values.end());
  for (const auto& [key, unused] : keys) {
    const auto before = running.values.find(key);
    const auto after = loaded.values.find(key);
    if (before != running.values.end() && after != loaded.values.end() && before->second == after->second) continue;
    (Take(key, loaded, &result) ? result.taken : result.left_out).push_back(key);
  }
  return result;
}

}  // namespace dunlin::server

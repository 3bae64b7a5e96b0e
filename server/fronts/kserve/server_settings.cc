// SPDX-License-Identifier: Apache-2.0
#include "server/fronts/kserve/server_settings.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <string>

#include "absl/strings/str_cat.h"
#include "server/serving/record/errors.h"

namespace dunlin::server::kserve {
namespace {

// Of a setting in the request, the first in the order of their names.
template <class Settings>
absl::Status RefuseSettings(const Settings& settings, const char* key) {
  if (settings.empty()) return absl::OkStatus();
  std::string first = settings.begin()->first;
  for (const auto& [name, value] : settings) first = std::min(first, name);
  return MakeError(Reason::kNotImplemented,
                   absl::StrCat("settings[\"", first.substr(0, 64),
                                "\"] cannot be set while the server runs; it follows ", key, " of its config"));
}

}  // namespace

absl::Status AnswerTraceSetting(bool traces, const inference::TraceSettingRequest& request,
                                inference::TraceSettingResponse* response) {
  if (absl::Status s = RefuseSettings(request.settings(), "tracing.*"); !s.ok()) return s;
  auto& settings = *response->mutable_settings();
  settings["trace_level"].add_value(traces ? "TIMESTAMPS" : "OFF");
  settings["trace_mode"].add_value("opentelemetry");
  return absl::OkStatus();
}

absl::Status AnswerLogSettings(const inference::LogSettingsRequest& request, inference::LogSettingsResponse* response) {
  if (absl::Status s = RefuseSettings(request.settings(), "log.level and log.format"); !s.ok()) return s;
  auto& settings = *response->mutable_settings();
  const auto logs = [](spdlog::level::level_enum level) { return spdlog::should_log(level); };
  settings["log_info"].set_bool_param(logs(spdlog::level::info));
  settings["log_warning"].set_bool_param(logs(spdlog::level::warn));
  settings["log_error"].set_bool_param(logs(spdlog::level::err));
  settings["log_verbose_level"].set_uint32_param(logs(spdlog::level::debug) ? 1 : 0);
  return absl::OkStatus();
}

}  // namespace dunlin::server::kserve

// SPDX-License-Identifier: Apache-2.0
#include "server/fronts/front_settings.h"

#include <nlohmann/json.hpp>

namespace dunlin::server {
namespace {

constexpr std::string_view kSection = "protocols.";

}  // namespace

FrontSettings::FrontSettings(const std::map<std::string, std::string>& values) {
  for (const auto& [key, value] : values) {
    if (key.starts_with(kSection)) values_.emplace(key, value);
  }
}

bool FrontSettings::Flag(std::string_view key, bool fallback) const {
  const auto found = values_.find(key);
  return found == values_.end() ? fallback : found->second == "true";
}

std::string FrontSettings::Text(std::string_view key) const {
  const auto found = values_.find(key);
  return found == values_.end() ? "" : nlohmann::json::parse(found->second).get<std::string>();
}

}  // namespace dunlin::server

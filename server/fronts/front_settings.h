// SPDX-License-Identifier: Apache-2.0
// The values of the config that front ends read: their keys are under "protocols". Plain data; const once a front has
// it.
#pragma once

#include <map>
#include <string>
#include <string_view>

namespace dunlin::server {

class FrontSettings {
 public:
  FrontSettings() = default;
  // values: of config keys, as JSON (Config::values).
  explicit FrontSettings(const std::map<std::string, std::string>& values);

  // Sets one key, as "protocols.kserve", to a value in JSON.
  void Set(const std::string& key, std::string json) { values_[key] = std::move(json); }

  // The value of a key; of one that has not been set, the fallback. REQUIRES: a value of that type.
  bool Flag(std::string_view key, bool fallback) const;
  std::string Text(std::string_view key) const;  // fallback: ""

 private:
  std::map<std::string, std::string, std::less<>> values_;
};

}  // namespace dunlin::server

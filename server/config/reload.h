// SPDX-License-Identifier: Apache-2.0
// Which keys of a changed config file a running server applies: its models, and what determined no size at startup.
#pragma once

#include <string>
#include <vector>

#include "server/config/config.h"

namespace dunlin::server {

struct ReloadResult {
  Config config;                      // the running config with the applied changes, and the loaded one's models
  std::vector<std::string> taken;     // changed keys that were applied, sorted: "log.level"
  std::vector<std::string> left_out;  // changed keys that need a restart, sorted: "models.0.path"
};

// Compares a freshly loaded config with the running one.
ReloadResult TakeReloadable(const Config& running, const Config& loaded);

}  // namespace dunlin::server

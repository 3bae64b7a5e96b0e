// SPDX-License-Identifier: Apache-2.0
// On whose behalf a call comes. Every call is anonymous: there are no keys yet. Plain data.
#pragma once

#include <string>

namespace dunlin::server {

struct Principal {
  std::string name;  // "" is anonymous
  bool anonymous() const { return name.empty(); }
};

}  // namespace dunlin::server

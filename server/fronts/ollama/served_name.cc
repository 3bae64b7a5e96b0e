// SPDX-License-Identifier: Apache-2.0
#include "server/fronts/ollama/served_name.h"

#include <string_view>

#include "server/models/model_lifecycle.h"
#include "server/serving/resolve/profile_alias.h"

namespace dunlin::server::ollama {

std::string ServedName(const ServingCore& core, const std::string& name) {
  constexpr std::string_view kLatest = ":latest";
  if (!name.ends_with(kLatest) || FindNamed(core, name).name == name) return name;
  if (core.lifecycle() != nullptr && core.lifecycle()->Knows(name)) return name;
  return name.substr(0, name.size() - kLatest.size());
}

}  // namespace dunlin::server::ollama

// SPDX-License-Identifier: Apache-2.0
#include "server/config/parallel.h"

#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"

namespace dunlin::server {

absl::Status ReadParallel(const nlohmann::ordered_json& model, const std::string& at, ModelSettings* settings) {
  const nlohmann::ordered_json& parallel = model.at("parallel");
  const auto num_ranks = parallel.at("tensor").get<int32_t>();
  settings->source.num_ranks = num_ranks;
  settings->rank_devices.clear();
  for (const auto& number : parallel.at("devices")) {
    settings->rank_devices.push_back(std::stoi(number.get<std::string>()));
  }
  const size_t count = settings->rank_devices.size();
  if (count == 0 || count == static_cast<size_t>(num_ranks)) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(at, ".parallel.devices has ", count,
                                                 " entries; limit is one for each rank, ", num_ranks, " (", at,
                                                 ".parallel.tensor)"));
}

}  // namespace dunlin::server

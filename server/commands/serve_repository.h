// SPDX-License-Identifier: Apache-2.0
// Follows model_repository.path while the server runs.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "server/config/config.h"

namespace dunlin::server {

// A warning for each path that the folder's models are without in `now`, and were not in `before`.
void WarnOfLeftOut(const std::vector<std::string>& before, const Config& now);

class RepositoryWatch {
 public:
  // The running config with the models that the folder has now, where it is time to look (poll_s) and the folder has
  // changed since the last look, or this is the first; an error where what it has cannot be taken over. Each change is
  // told once.
  std::optional<absl::StatusOr<Config>> Poll(const Config& running);

 private:
  static std::string StampNow(const Config& running);

  std::string stamp_;
  absl::Time looked_ = absl::InfinitePast();
};

}  // namespace dunlin::server

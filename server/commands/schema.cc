// SPDX-License-Identifier: Apache-2.0
#include <iostream>
#include <nlohmann/json.hpp>

#include "server/commands/command.h"
#include "server/config/validate.h"

namespace dunlin::server {

std::function<int()> SetUpSchema(CLI::App* /*subcommand*/) {
  return [] {
    std::cout << ConfigSchema().dump(2) << "\n";
    return kExitOk;
  };
}

}  // namespace dunlin::server

// SPDX-License-Identifier: Apache-2.0
// `dunlin config DIR...`: prints the config that `dunlin serve DIR...` makes, as a file to start from.
#include <iostream>
#include <memory>

#include "server/commands/command.h"
#include "server/commands/serve_options.h"

namespace dunlin::server {

std::function<int()> SetUpConfig(CLI::App* subcommand) {
  auto options = std::make_shared<ServeOptions>();
  AddServeOptions(subcommand, options.get());
  return [options] {
    if (options->directories.empty()) {
      std::cerr << "dunlin config prints the config of model directories; give one\n";
      return kExitUsage;
    }
    const absl::StatusOr<std::string> text = ConfigTextOf(*options);
    if (!text.ok()) {
      std::cerr << text.status().message() << "\n";
      return kExitFailed;
    }
    std::cout << *text << "\n";
    return kExitOk;
  };
}

}  // namespace dunlin::server

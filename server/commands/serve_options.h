// SPDX-License-Identifier: Apache-2.0
// What `dunlin serve` and `dunlin config` are told to serve: a config file, or model directories, of which a config is
// made. Every option can also come from the environment.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "server/config/config.h"

namespace dunlin::server {

struct ServeOptions {
  std::vector<std::string> directories;
  std::vector<std::string> names;       // none, or one per directory
  std::vector<std::string> precisions;  // none, one for all directories, or one per directory: "bf16,fp8"
  std::string config;                   // a file; empty with directories
  std::string grpc;
  std::string http;
  std::string behind_proxy;            // "true", or another value of access.behind_proxy; empty: the config's
  std::vector<std::string> overrides;  // of --set, on top of everything
};

// Declares the options, and lists the variables in the footer. Once they are parsed, what the command line leaves out
// is taken from the environment, and usage errors are thrown as CLI::ParseError.
void AddServeOptions(CLI::App* subcommand, ServeOptions* options);

// The config that is made of the directories, as JSON with the overrides applied and absolute model paths.
// INVALID_ARGUMENT: a path is no model directory (the message says what is missing), two models of one name, or an
// override that does not fit. REQUIRES: there are directories.
absl::StatusOr<std::string> ConfigTextOf(const ServeOptions& options);

// Reads the file or makes the config of the directories. Errors: as LoadConfig and ConfigTextOf.
absl::StatusOr<Config> LoadServeConfig(const ServeOptions& options);

}  // namespace dunlin::server

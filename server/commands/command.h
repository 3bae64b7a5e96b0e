// SPDX-License-Identifier: Apache-2.0
// The commands of the binary that need the server or the engine, one row each in main.cc, beside the clients' commands
// (tools/cli).
#pragma once

#include <CLI/CLI.hpp>
#include <functional>

#include "tools/cli/command.h"

namespace dunlin::server {

using cli::kExitDeviceFailed;
using cli::kExitFailed;
using cli::kExitOk;
using cli::kExitStalled;
using cli::kExitStuck;
using cli::kExitUsage;

std::function<int()> SetUpServe(CLI::App* subcommand);
std::function<int()> SetUpConfig(CLI::App* subcommand);
std::function<int()> SetUpInspect(CLI::App* subcommand);
std::function<int()> SetUpCalibrate(CLI::App* subcommand);
std::function<int()> SetUpQuantize(CLI::App* subcommand);
std::function<int()> SetUpBench(CLI::App* subcommand);
std::function<int()> SetUpKey(CLI::App* subcommand);
std::function<int()> SetUpSchema(CLI::App* subcommand);

}  // namespace dunlin::server

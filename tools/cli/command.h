// SPDX-License-Identifier: Apache-2.0
// The commands that are clients of a server, and what all commands share: a command declares its options on a CLI11
// subcommand and returns the function that runs it.
#pragma once

#include <CLI/CLI.hpp>
#include <functional>

namespace dunlin::cli {

// Exit statuses that scripts rely on.
inline constexpr int kExitOk = 0;
inline constexpr int kExitFailed = 1;  // refused or failed
inline constexpr int kExitUsage = 2;
inline constexpr int kExitDeviceFailed = 70;
inline constexpr int kExitStalled = 71;
inline constexpr int kExitStuck = 72;  // a thread did not stop in time

// Adds the options to `subcommand`; the returned function runs the command once they are parsed.
using CommandSetup = std::function<int()> (*)(CLI::App* subcommand);

std::function<int()> SetUpGenerate(CLI::App* subcommand);
std::function<int()> SetUpChat(CLI::App* subcommand);
std::function<int()> SetUpEmbed(CLI::App* subcommand);
std::function<int()> SetUpLoad(CLI::App* subcommand);
std::function<int()> SetUpHealthcheck(CLI::App* subcommand);

// Examples and exit statuses, the end of their --help.
extern const char kGenerateFooter[];
extern const char kChatFooter[];

}  // namespace dunlin::cli

// SPDX-License-Identifier: Apache-2.0
// What the client commands share: the server's address, and values that may stand in a file.
#pragma once

#include <grpcpp/channel.h>

#include <CLI/CLI.hpp>
#include <memory>
#include <string>

#include "absl/status/statusor.h"

namespace dunlin::server {

inline constexpr char kDefaultAddress[] = "127.0.0.1:50051";

// --address, or the environment's DUNLIN_ADDRESS; *address holds the default.
CLI::Option* AddAddressOption(CLI::App* subcommand, std::string* address);

// A channel without a limit on received messages, which reconnects within a second.
std::shared_ptr<grpc::Channel> OpenChannel(const std::string& address);

// The value itself, or the contents of the file that "@FILE" names.
// Errors: INVALID_ARGUMENT with the option's name for a file that cannot be read.
absl::StatusOr<std::string> TextOrFile(const char* option, const std::string& value);

// Errors: as TextOrFile.
absl::StatusOr<std::string> FileText(const char* option, const std::string& path);

}  // namespace dunlin::server

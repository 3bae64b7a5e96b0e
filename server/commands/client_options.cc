// SPDX-License-Identifier: Apache-2.0
#include "server/commands/client_options.h"

#include <grpcpp/create_channel.h>

#include <filesystem>
#include <fstream>
#include <sstream>
#include <system_error>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace dunlin::server {
namespace {

constexpr int kMaxReconnectMs = 1000;

}  // namespace

CLI::Option* AddAddressOption(CLI::App* subcommand, std::string* address) {
  return subcommand->add_option("--address", *address, "The server's gRPC address")
      ->envname("DUNLIN_ADDRESS")
      ->capture_default_str();
}

std::shared_ptr<grpc::Channel> OpenChannel(const std::string& address) {
  grpc::ChannelArguments arguments;
  arguments.SetMaxReceiveMessageSize(-1);
  arguments.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, kMaxReconnectMs);
  return grpc::CreateCustomChannel(address, grpc::InsecureChannelCredentials(), arguments);
}

absl::StatusOr<std::string> TextOrFile(const char* option, const std::string& value) {
  if (value.empty() || value[0] != '@') return value;
  return FileText(option, value.substr(1));
}

absl::StatusOr<std::string> FileText(const char* option, const std::string& path) {
  std::error_code error;
  std::ifstream file(path, std::ios::binary);
  if (!file || std::filesystem::is_directory(path, error)) {
    return absl::InvalidArgumentError(absl::StrCat(option, ": cannot read ", path));
  }
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

}  // namespace dunlin::server

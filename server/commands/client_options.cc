// SPDX-License-Identifier: Apache-2.0
#include "server/commands/client_options.h"

#include <grpcpp/support/channel_arguments.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <sstream>
#include <system_error>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "engine/base/string_view.h"

namespace dunlin::server {
namespace {

constexpr int kMaxReconnectMs = 1000;

}  // namespace

void AddTlsOptions(CLI::App* subcommand, tools::ClientTls* tls) {
  const char* const group = "TLS";
  subcommand->add_flag("--tls", tls->on, "Use TLS, and trust the authorities of this system")
      ->envname("DUNLIN_TLS")
      ->group(group);
  subcommand->add_option("--tls-ca", tls->ca_file, "Use TLS, and trust the authorities in this file (PEM)")
      ->envname("DUNLIN_TLS_CA")
      ->group(group);
  subcommand->add_option("--tls-cert", tls->cert_file, "Certificate to show to the server (PEM); with --tls-key")
      ->envname("DUNLIN_TLS_CERT")
      ->group(group);
  subcommand->add_option("--tls-key", tls->key_file, "Private key of --tls-cert (PEM)")
      ->envname("DUNLIN_TLS_KEY")
      ->group(group);
  subcommand
      ->add_option("--tls-server-name", tls->server_name,
                   "Name that the server's certificate must be for, instead of the host of the address")
      ->envname("DUNLIN_TLS_SERVER_NAME")
      ->group(group);
}

CLI::Option* AddApiKeyOption(CLI::App* subcommand, std::string* api_key_file) {
  return subcommand->add_option(
      "--api-key-file", *api_key_file,
      "File with the key to send in its first line; by default the environment's DUNLIN_API_KEY");
}

absl::StatusOr<std::string> ReadApiKey(const std::string& api_key_file) {
  std::string key;
  if (api_key_file.empty()) {
    const char* const from_environment = std::getenv("DUNLIN_API_KEY");
    if (from_environment == nullptr) return key;
    key = from_environment;
  } else {
    absl::StatusOr<std::string> text = FileText("--api-key-file", api_key_file);
    if (!text.ok()) return text.status();
    key = *std::move(text);
  }
  key.resize(std::min(key.size(), key.find_first_of("\r\n")));
  const bool sendable = std::all_of(key.begin(), key.end(), [](char c) { return c > ' ' && c < 0x7F; });
  if (!key.empty() && sendable) return key;
  if (key.empty() && api_key_file.empty()) return key;
  const std::string source = api_key_file.empty() ? "DUNLIN_API_KEY" : absl::StrCat("--api-key-file ", api_key_file);
  return absl::InvalidArgumentError(absl::StrCat(source, ": the first line is no key"));
}

void AddServerOptions(CLI::App* subcommand, ServerAddress* server) {
  subcommand->add_option("--address", server->address, "The server's gRPC address")
      ->envname("DUNLIN_ADDRESS")
      ->capture_default_str();
  AddApiKeyOption(subcommand, &server->api_key_file);
  AddTlsOptions(subcommand, &server->tls);
}

std::shared_ptr<grpc::Channel> OpenChannel(const ServerAddress& server) {
  grpc::ChannelArguments arguments;
  arguments.SetMaxReceiveMessageSize(-1);
  arguments.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, kMaxReconnectMs);
  const absl::StatusOr<std::string> key = ReadApiKey(server.api_key_file);
  if (!key.ok()) {
    std::cerr << engine::StdView(key.status().message()) << "\n";
    return nullptr;
  }
  absl::StatusOr<std::shared_ptr<grpc::Channel>> channel =
      tools::OpenChannel(server.address, server.tls, *key, arguments);
  if (channel.ok()) return *std::move(channel);
  std::cerr << engine::StdView(channel.status().message()) << "\n";
  return nullptr;
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

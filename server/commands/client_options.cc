// SPDX-License-Identifier: Apache-2.0
#include "server/commands/client_options.h"

#include <grpcpp/support/channel_arguments.h>

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

void AddServerOptions(CLI::App* subcommand, ServerAddress* server) {
  subcommand->add_option("--address", server->address, "The server's gRPC address")
      ->envname("DUNLIN_ADDRESS")
      ->capture_default_str();
  AddTlsOptions(subcommand, &server->tls);
}

std::shared_ptr<grpc::Channel> OpenChannel(const ServerAddress& server) {
  grpc::ChannelArguments arguments;
  arguments.SetMaxReceiveMessageSize(-1);
  arguments.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, kMaxReconnectMs);
  absl::StatusOr<std::shared_ptr<grpc::Channel>> channel = tools::OpenChannel(server.address, server.tls, arguments);
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

// SPDX-License-Identifier: Apache-2.0
#include "tools/cli/client_options.h"

#include <grpcpp/client_context.h>
#include <grpcpp/support/channel_arguments.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <fstream>
#include <iostream>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "dunlin/v1/model.grpc.pb.h"
#include "engine/base/bounded_read.h"
#include "engine/base/string_view.h"
#include "tools/cli/client_error.h"
#include "tools/cli/command.h"
#include "tools/cli/terminal.h"

namespace dunlin::cli {
namespace {

constexpr int kMaxReconnectMs = 1000;
constexpr std::chrono::seconds kListTimeout(5);

// gRPC takes a name without a port for port 0, and a URL for the name of a host.
absl::Status CheckAddress(const std::string& address) {
  const bool is_url = absl::StartsWith(address, "http://") || absl::StartsWith(address, "https://");
  if (!is_url && absl::StrContains(address, ':')) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("--address is ", address, "; limit is HOST:PORT of the server's gRPC port, ", kDefaultAddress));
}

grpc::Status ListGenerating(const std::shared_ptr<grpc::Channel>& channel, std::vector<std::string>* names) {
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + kListTimeout);
  v1::ListModelsResponse response;
  grpc::Status status = v1::ModelService::NewStub(channel)->ListModels(&context, {}, &response);
  for (const v1::Model& model : response.models()) {
    if (model.kind() != v1::MODEL_KIND_ENCODER) names->push_back(model.name());
  }
  return status;
}

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
  const absl::Status usable = key.ok() ? CheckAddress(server.address) : key.status();
  if (!usable.ok()) {
    std::cerr << engine::StdView(usable.message()) << "\n";
    return nullptr;
  }
  absl::StatusOr<std::shared_ptr<grpc::Channel>> channel =
      tools::OpenChannel(server.address, server.tls, *key, arguments);
  if (channel.ok()) return *std::move(channel);
  std::cerr << engine::StdView(channel.status().message()) << "\n";
  return nullptr;
}

int ChooseModel(const std::shared_ptr<grpc::Channel>& channel, std::string* name) {
  std::vector<std::string> names;
  const grpc::Status status = ListGenerating(channel, &names);
  if (status.ok() && names.size() == 1) {
    *name = names[0];
    return kExitOk;
  }
  const std::string line = !status.ok()    ? ErrorLine(status)
                           : names.empty() ? "the server has no model that generates"
                                           : "give --model; the server has " + absl::StrJoin(names, ", ");
  std::cerr << Shown(line, StyleOf(STDERR_FILENO)) << "\n";
  return names.size() > 1 ? kExitUsage : kExitFailed;
}

std::string OtherModels(const grpc::Status& status, const std::shared_ptr<grpc::Channel>& channel) {
  std::vector<std::string> names;
  if (status.error_code() != grpc::StatusCode::NOT_FOUND || !ListGenerating(channel, &names).ok() || names.empty()) {
    return "";
  }
  return absl::StrCat("; the server has ", absl::StrJoin(names, ", "));
}

absl::StatusOr<std::string> TextOrFile(const char* option, const std::string& value) {
  if (value.empty() || value[0] != '@') return value;
  return FileText(option, value.substr(1));
}

absl::StatusOr<std::string> FileText(const char* option, const std::string& path) {
  std::ifstream file;
  if (path != "-") file.open(path, std::ios::binary);
  absl::StatusOr<std::string> text =
      engine::ReadAtMost(engine::kMaxNamedTextBytes, path == "-" ? &std::cin : static_cast<std::istream*>(&file));
  if (text.ok()) return text;
  if (absl::IsDataLoss(text.status())) return absl::InvalidArgumentError(absl::StrCat(option, ": cannot read ", path));
  return absl::InvalidArgumentError(absl::StrCat(option, ": ", path, " ", text.status().message()));
}

}  // namespace dunlin::cli

// SPDX-License-Identifier: Apache-2.0
// What the client commands share: how the server is reached, which of its models is meant, and values that may stand in
// a file.
#pragma once

#include <grpcpp/channel.h>
#include <grpcpp/support/status.h>

#include <CLI/CLI.hpp>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "tools/client/client_tls.h"

namespace dunlin::cli {

inline constexpr char kDefaultAddress[] = "127.0.0.1:50051";
inline constexpr char kDefaultHttpAddress[] = "127.0.0.1:8080";

struct ServerAddress {
  std::string address = kDefaultAddress;
  tools::ClientTls tls;
  std::string api_key_file;  // "": the environment's DUNLIN_API_KEY, if there is one
};

// --tls, --tls-ca, --tls-cert, --tls-key and --tls-server-name; each also from the environment: DUNLIN_TLS_CA.
void AddTlsOptions(CLI::App* subcommand, tools::ClientTls* tls);

// --api-key-file. A key has no option of its own: other users of the machine can read the command line.
CLI::Option* AddApiKeyOption(CLI::App* subcommand, std::string* api_key_file);

// The first line of the file, or of the environment's DUNLIN_API_KEY without a file; "" if there is none.
// Errors: INVALID_ARGUMENT for a file that cannot be read, or has no key.
absl::StatusOr<std::string> ReadApiKey(const std::string& api_key_file);

// --address, or the environment's DUNLIN_ADDRESS, AddApiKeyOption and AddTlsOptions; *server holds the defaults.
void AddServerOptions(CLI::App* subcommand, ServerAddress* server);

// A channel without a limit on received messages, which reconnects within a second. Null after an error, which is
// printed to stderr: the caller exits with kExitUsage. An address without a port, or a URL, is one.
std::shared_ptr<grpc::Channel> OpenChannel(const ServerAddress& server);

// The name of the server's only model that generates. Errors, which are printed to stderr: kExitFailed if there is none
// or the call fails, kExitUsage if there are several.
int ChooseModel(const std::shared_ptr<grpc::Channel>& channel, std::string* name);

// After a call that ended with `status`: "; the server has a, b" where it knows no model of that name, else "".
std::string OtherModels(const grpc::Status& status, const std::shared_ptr<grpc::Channel>& channel);

// The value itself, or the contents of the file that "@FILE" names.
// Errors: INVALID_ARGUMENT with the option's name for a file that cannot be read, or has more than
// engine::kMaxNamedTextBytes.
absl::StatusOr<std::string> TextOrFile(const char* option, const std::string& value);

// "-": the standard input. Errors: as TextOrFile.
absl::StatusOr<std::string> FileText(const char* option, const std::string& path);

}  // namespace dunlin::cli

// SPDX-License-Identifier: Apache-2.0
#include <chrono>
#include <iostream>
#include <memory>
#include <string>

#include "grpc/health/v1/health.grpc.pb.h"
#include "tools/cli/client_error.h"
#include "tools/cli/client_options.h"
#include "tools/cli/command.h"

namespace dunlin::cli {
namespace {

struct HealthcheckOptions {
  ServerAddress server;
  std::string service;
  int timeout_ms = 2000;
};

int RunHealthcheck(const HealthcheckOptions& options) {
  using grpc::health::v1::HealthCheckResponse;
  const auto channel = OpenChannel(options.server);
  if (channel == nullptr) return kExitUsage;
  const auto stub = grpc::health::v1::Health::NewStub(channel);
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + std::chrono::milliseconds(options.timeout_ms));
  grpc::health::v1::HealthCheckRequest request;
  request.set_service(options.service);
  HealthCheckResponse response;
  const grpc::Status status = stub->Check(&context, request, &response);
  if (!status.ok()) {
    std::cout << ErrorLine(status) << "\n";
    return kExitFailed;
  }
  std::cout << HealthCheckResponse::ServingStatus_Name(response.status()) << "\n";
  return response.status() == HealthCheckResponse::SERVING ? kExitOk : kExitFailed;
}

}  // namespace

std::function<int()> SetUpHealthcheck(CLI::App* subcommand) {
  auto options = std::make_shared<HealthcheckOptions>();
  AddServerOptions(subcommand, &options->server);
  subcommand->add_option("--service", options->service, "Full name of a service; empty: the whole server");
  subcommand->add_option("--timeout-ms", options->timeout_ms, "Deadline of the check")
      ->check(CLI::Range(1, 3600000))
      ->capture_default_str();
  return [options] { return RunHealthcheck(*options); };
}

}  // namespace dunlin::cli

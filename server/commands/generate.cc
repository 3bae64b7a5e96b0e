// SPDX-License-Identifier: Apache-2.0
#include <grpcpp/create_channel.h>

#include <chrono>
#include <fstream>
#include <iostream>
#include <memory>
#include <string>

#include "absl/strings/str_format.h"
#include "dunlin/v1/generation.grpc.pb.h"
#include "server/commands/client_error.h"
#include "server/commands/command.h"
#include "server/commands/completion.h"
#include "server/commands/execution_name.h"
#include "server/commands/generate_options.h"

namespace dunlin::server {
namespace {

// One tab-separated line about output 0: its profile, prompt length, TTFT and decode speed.
std::string SummaryLine(const Completion& completion) {
  const v1::Finish& finish = completion.outputs[0].finish;
  const v1::Timings& timings = finish.timings();
  const int tokens = finish.usage().completion_tokens();
  const double decode_ms = timings.total_ms() - timings.ttft_ms();
  const double per_second = tokens > 1 && decode_ms > 0 ? (tokens - 1) * 1000.0 / decode_ms : 0.0;
  return absl::StrFormat("%s\t%s\t%s\t%d\t%.1f\t%.1f\n", BackendWord(completion.execution.attention_backend()),
                         PrecisionWord(completion.execution.precision()), DeviceWord(completion.execution.device()),
                         finish.usage().prompt_tokens(), timings.ttft_ms(), per_second);
}

int Refused(const GenerateOptions& options, const grpc::Status& status) {
  if (options.json) {
    std::cout << ErrorJson(status).dump() << "\n";
  } else {
    std::cout << std::flush;
    std::cerr << ErrorLine(status) << "\n";
  }
  return kExitFailed;
}

int RunGenerate(const GenerateOptions& options) {
  if (options.has_prompt == !options.token_ids.empty()) {
    std::cerr << "give either a prompt or --token-ids\n";
    return kExitUsage;
  }
  grpc::ChannelArguments arguments;
  arguments.SetMaxReceiveMessageSize(-1);
  const auto channel = grpc::CreateCustomChannel(options.address, grpc::InsecureChannelCredentials(), arguments);
  const auto stub = v1::GenerationService::NewStub(channel);
  grpc::ClientContext context;
  if (options.timeout_ms > 0) {
    context.set_deadline(std::chrono::system_clock::now() + std::chrono::milliseconds(options.timeout_ms));
  }
  const v1::GenerateRequest request = MakeRequest(options);
  const auto reader = stub->Generate(&context, request);
  Completion completion;
  v1::GenerateResponse response;
  while (reader->Read(&response)) {
    completion.Add(response);
    if (!options.json && response.index() == 0) std::cout << response.text_delta() << std::flush;
  }
  const grpc::Status status = reader->Finish();
  if (!status.ok()) return Refused(options, status);
  std::cout << (options.json ? completion.ToJson().dump() : "") << "\n";
  if (!options.summary_file.empty()) {
    std::ofstream(options.summary_file, std::ios::app) << SummaryLine(completion);
  }
  return kExitOk;
}

}  // namespace

std::function<int()> SetUpGenerate(CLI::App* subcommand) {
  auto options = std::make_shared<GenerateOptions>();
  AddGenerateOptions(subcommand, options.get());
  return [options] { return RunGenerate(*options); };
}

}  // namespace dunlin::server

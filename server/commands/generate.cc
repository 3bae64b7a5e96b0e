// SPDX-License-Identifier: Apache-2.0
#include <grpcpp/create_channel.h>

#include <chrono>
#include <fstream>
#include <iostream>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/str_format.h"
#include "dunlin/v1/generation.grpc.pb.h"
#include "dunlin/v1/tokenizer.grpc.pb.h"
#include "engine/base/string_view.h"
#include "server/commands/client_error.h"
#include "server/commands/command.h"
#include "server/commands/completion.h"
#include "server/commands/execution_name.h"
#include "server/commands/generate_options.h"

namespace dunlin::server {
namespace {

constexpr std::chrono::seconds kPromptTimeout(30);

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

// Null if the options make sense together.
const char* UsageProblem(const GenerateOptions& options) {
  const ChatOptions& chat = options.chat;
  if (chat.chat && !chat.messages_json.empty()) return "give either --chat with a prompt or --messages";
  if (chat.chat && !options.has_prompt) return "--chat needs a prompt";
  const int prompts =
      (options.has_prompt ? 1 : 0) + (options.token_ids.empty() ? 0 : 1) + (chat.messages_json.empty() ? 0 : 1);
  if (prompts != 1) return "give one of a prompt, --token-ids and --messages";
  const bool has_details =
      !chat.tools_json.empty() || !chat.template_options_json.empty() || chat.continue_final_message;
  if (has_details && !chat.any())
    return "--tools, --template-options and --continue-final-message need --chat or --messages";
  if (chat.show_prompt && !options.json) return "--show-prompt needs --json";
  if (chat.show_prompt && !options.token_ids.empty()) return "--show-prompt needs a prompt of text or a chat";
  return nullptr;
}

// What the model reads: the prompt itself, or what its chat template makes of the chat.
grpc::Status ReadPrompt(const v1::GenerateRequest& request, const std::shared_ptr<grpc::Channel>& channel,
                        Completion* completion) {
  if (!request.has_chat()) {
    completion->prompt = request.text();
    return grpc::Status::OK;
  }
  v1::ApplyChatTemplateRequest wanted;
  wanted.set_model(request.model());
  *wanted.mutable_chat() = request.chat();
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + kPromptTimeout);
  v1::ApplyChatTemplateResponse rendered;
  grpc::Status status = v1::TokenizerService::NewStub(channel)->ApplyChatTemplate(&context, wanted, &rendered);
  if (status.ok()) completion->prompt = rendered.text();
  return status;
}

int RunGenerate(const GenerateOptions& options) {
  if (const char* problem = UsageProblem(options); problem != nullptr) {
    std::cerr << problem << "\n";
    return kExitUsage;
  }
  const absl::StatusOr<v1::GenerateRequest> request = MakeRequest(options);
  if (!request.ok()) {
    std::cerr << engine::StdView(request.status().message()) << "\n";
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
  Completion completion;
  if (options.chat.show_prompt) {
    if (const grpc::Status status = ReadPrompt(*request, channel, &completion); !status.ok()) {
      return Refused(options, status);
    }
  }
  const auto reader = stub->Generate(&context, *request);
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

// SPDX-License-Identifier: Apache-2.0
// `dunlin generate`: streams one completion as text, or prints it as one JSON object.
#include <unistd.h>

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
#include "tools/cli/answer_printer.h"
#include "tools/cli/client_error.h"
#include "tools/cli/client_options.h"
#include "tools/cli/command.h"
#include "tools/cli/completion.h"
#include "tools/cli/execution_name.h"
#include "tools/cli/generate_options.h"
#include "tools/cli/terminal.h"

namespace dunlin::cli {
namespace {

constexpr std::chrono::seconds kPromptTimeout(30);

// One tab-separated line about output 0: its profile, prompt length, TTFT and decode speed.
std::string SummaryLine(const Completion& completion) {
  const v1::Finish& finish = completion.outputs[0].finish;
  return absl::StrFormat("%s\t%s\t%s\t%d\t%.1f\t%.1f\n", BackendWord(completion.execution.attention_backend()),
                         PrecisionWord(completion.execution.precision()), DeviceWord(completion.execution.device()),
                         finish.usage().prompt_tokens(), finish.timings().ttft_ms(), DecodeTokensPerSecond(finish));
}

int Refused(const GenerateOptions& options, const grpc::Status& status, const std::shared_ptr<grpc::Channel>& channel) {
  if (options.json) {
    std::cout << Shown(ErrorJson(status).dump(), StyleOf(STDOUT_FILENO)) << "\n";
  } else {
    std::cout << std::flush;
    std::cerr << Shown(ErrorLine(status) + OtherModels(status, channel), StyleOf(STDERR_FILENO)) << "\n";
  }
  return kExitFailed;
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
  absl::StatusOr<v1::GenerateRequest> request = MakeRequest(options);
  if (!request.ok()) {
    std::cerr << engine::StdView(request.status().message()) << "\n";
    return kExitUsage;
  }
  const auto channel = OpenChannel(options.request.server);
  if (channel == nullptr) return kExitUsage;
  if (request->model().empty()) {
    if (const int status = ChooseModel(channel, request->mutable_model()); status != kExitOk) return status;
  }
  const auto stub = v1::GenerationService::NewStub(channel);
  grpc::ClientContext context;
  if (options.request.timeout_ms > 0) {
    context.set_deadline(std::chrono::system_clock::now() + std::chrono::milliseconds(options.request.timeout_ms));
  }
  Completion completion;
  if (options.show_prompt) {
    if (const grpc::Status status = ReadPrompt(*request, channel, &completion); !status.ok()) {
      return Refused(options, status, channel);
    }
  }
  const TerminalStyle style = StyleOf(STDOUT_FILENO);
  AnswerPrinter printer(&std::cout, style);
  const auto reader = stub->Generate(&context, *request);
  v1::GenerateResponse response;
  while (reader->Read(&response)) {
    completion.Add(response);
    if (!options.json) printer.Add(response);
  }
  const grpc::Status status = reader->Finish();
  if (!status.ok()) {
    printer.EndLine();
    return Refused(options, status, channel);
  }
  if (options.json) {
    std::cout << Shown(completion.ToJson().dump(), style) << "\n";
  } else {
    printer.End(completion.outputs[0]);
    const std::string note = IncompleteNote(completion.outputs[0].finish, options.request.structured.any());
    if (!note.empty()) std::cerr << note << "\n";
  }
  if (!options.summary_file.empty()) {
    std::ofstream(options.summary_file, std::ios::app) << SummaryLine(completion);
  }
  return kExitOk;
}

}  // namespace

const char kGenerateFooter[] =
    "Examples:\n"
    "  dunlin generate --address 127.0.0.1:50051 --model demo \"Once upon a time\"\n"
    "  dunlin generate --model demo --attention-backend math --precision fp8 --json \"Hello\"\n"
    "  dunlin generate --model mine --chat --json --show-prompt \"Who are you?\"\n"
    "  dunlin generate --model mine --image bird.png --image egg.jpg \"Whose egg is this?\"\n"
    "  dunlin generate --model mine --chat --json-schema @person.json --max-tokens 200 \"Name a person.\"\n"
    "  dunlin generate --model mine --chat --json-object --max-tokens 200 \"Describe a bird.\"\n"
    "  dunlin generate --model mine --choice yes --choice no \"Is water wet?\"\n"
    "  dunlin generate --model mine --regex '[0-9]{4}-[0-9]{2}-[0-9]{2}' \"Today is \"\n"
    "  dunlin generate --model mine --grammar list.lark \"Three birds:\"\n"
    "  dunlin generate --model mine --chat --tools @tools.json --tool-choice get_weather --json \"Is Oslo cold?\"\n"
    "  dunlin generate --model mine --chat --tools @tools.json --no-parallel-tool-calls --raw-chat-output \"Hi\"\n"
    "  dunlin generate --model mine --logit-bias 11=-100 --bad-word no --stop-token-ids 13 --include-stop \"Once\"\n"
    "  dunlin generate --model mine --allowed-token-ids 15,16,17 --bad-words-ids 15,15 --ignore-model-bans \"1, 2\"\n"
    "  dunlin generate --model mine --parse-special-tokens --truncate-prompt-tokens 512 --echo \"<|user|>Hi\"\n"
    "  dunlin generate --model mine --json --omit-text --logprobs 2 \"Once\"\n"
    "  dunlin generate --model mine --keep-special-tokens --n 2 --json \"Once\"\n"
    "  dunlin generate --prompt-file article.txt --max-tokens 100\n"
    "Output that --json-schema, --regex or another option constrains may be incomplete when it ends for its length: a\n"
    "line on stderr says so, and finish.reason with --json. Control characters are escaped on a terminal.\n"
    "Exit status: 0 done, 1 refused or failed, 2 usage error.";

std::function<int()> SetUpGenerate(CLI::App* subcommand) {
  auto options = std::make_shared<GenerateOptions>();
  AddGenerateOptions(subcommand, options.get());
  return [options] { return RunGenerate(*options); };
}

}  // namespace dunlin::cli

// SPDX-License-Identifier: Apache-2.0
// `dunlin chat`: options, and the session (chat_session.h).
#include <unistd.h>

#include <iostream>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "dunlin/v1/generation.grpc.pb.h"
#include "engine/base/string_view.h"
#include "tools/cli/chat_options.h"
#include "tools/cli/chat_session.h"
#include "tools/cli/client_options.h"
#include "tools/cli/command.h"
#include "tools/cli/line_input.h"
#include "tools/cli/request_options.h"
#include "tools/cli/terminal.h"

namespace dunlin::cli {
namespace {

struct ChatCommandOptions {
  RequestOptions request;
  ChatOptions chat;
  std::string system;
  bool quiet = false;
};

absl::StatusOr<v1::GenerateRequest> ChatRequestOf(const ChatCommandOptions& options) {
  if (absl::Status s = CheckConstraints(options.chat, options.request.structured); !s.ok()) return s;
  v1::GenerateRequest request;
  if (absl::Status s = FillRequest(options.request, &request); !s.ok()) return s;
  absl::StatusOr<v1::Chat> chat = MakeChat(options.chat);
  if (!chat.ok()) return chat.status();
  *request.mutable_chat() = *std::move(chat);
  request.mutable_output()->set_raw_chat_output(options.chat.raw_chat_output);
  return request;
}

int RunChat(const ChatCommandOptions& options) {
  absl::StatusOr<v1::GenerateRequest> request = ChatRequestOf(options);
  if (!request.ok()) {
    std::cerr << engine::StdView(request.status().message()) << "\n";
    return kExitUsage;
  }
  Interrupts interrupts;  // before gRPC makes threads
  const auto channel = OpenChannel(options.request.server);
  if (channel == nullptr) return kExitUsage;
  if (request->model().empty()) {
    if (const int status = ChooseModel(channel, request->mutable_model()); status != kExitOk) return status;
  }
  LineInput input(STDIN_FILENO, &interrupts);
  const ChatScreen screen = {
      &std::cout, StyleOf(STDOUT_FILENO), &std::cerr, StyleOf(STDERR_FILENO), isatty(STDIN_FILENO) == 1, options.quiet};
  ChatSession session(v1::GenerationService::NewStub(channel), *request, options.request.timeout_ms, options.system,
                      screen);
  return session.Run(&input, &interrupts);
}

}  // namespace

const char kChatFooter[] =
    "Examples:\n"
    "  dunlin chat --address 127.0.0.1:50051 --model mine\n"
    "  dunlin chat --model mine --system \"Answer briefly.\" --temperature 0.7 --seed 1 --max-tokens 200 --quiet\n"
    "  dunlin chat --model mine --attention-backend flash --precision fp8 --tools @tools.json\n"
    "  dunlin chat --model mine --messages @saved.json\n"
    "  printf 'Hello!\\nAnd then?\\n/history\\n' | dunlin chat --model mine\n"
    "A line is a message; /help lists the commands: /profile flash:fp8, /regenerate, /undo, /image FILE, /save FILE.\n"
    "Ctrl-C stops an answer, which is kept as far as it came; Ctrl-D ends. Reasoning is shown on a terminal only,\n"
    "dimmed unless NO_COLOR is set. A call of a tool is printed, and the next line is its result.\n"
    "Without a terminal every line of the input is a message or a command, and the exit status is 1 if one of them\n"
    "failed. SIGTERM ends at once.\n"
    "Exit status: 0 done, 1 refused or failed, 2 usage error.";

std::function<int()> SetUpChat(CLI::App* subcommand) {
  auto options = std::make_shared<ChatCommandOptions>();
  AddRequestOptions(subcommand, &options->request);
  AddChatOptions(subcommand, &options->chat);
  subcommand->add_option("--system", options->system, "The system message")->group("Chat");
  subcommand->add_flag("--quiet", options->quiet, "No line about tokens and times after each answer");
  return [options] { return RunChat(*options); };
}

}  // namespace dunlin::cli

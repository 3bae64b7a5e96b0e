// SPDX-License-Identifier: Apache-2.0
#include "tools/cli/chat_session.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "text/utf8.h"
#include "tools/cli/answer_printer.h"
#include "tools/cli/client_error.h"
#include "tools/cli/command.h"
#include "tools/cli/execution_name.h"
#include "tools/cli/generation_call.h"

namespace dunlin::cli {
namespace {

constexpr char kNoResult[] = "error: the tool gave no result";

}  // namespace

ChatSession::ChatSession(std::unique_ptr<v1::GenerationService::Stub> stub, const v1::GenerateRequest& request,
                         int64_t timeout_ms, std::string system, const ChatScreen& screen)
    : stub_(std::move(stub)), request_(request), timeout_ms_(timeout_ms), screen_(screen) {
  conversation_.Load(request_.chat());
  request_.mutable_chat()->clear_messages();
  if (!system.empty()) conversation_.SetSystem(std::move(system));
}

void ChatSession::Say(const std::string& text) {
  *screen_.out << std::flush;
  *screen_.err << Shown(text, screen_.err_style) << "\n" << std::flush;
}

void ChatSession::Complain(const std::string& text) {
  failed_ = true;
  Say(text);
}

void ChatSession::Print(const std::string& text) {
  *screen_.out << Shown(text, screen_.out_style) << "\n" << std::flush;
}

LineInput::Event ChatSession::ReadLine(const std::string& prompt, std::string* line) {
  if (screen_.interactive) *screen_.err << Shown(prompt, screen_.err_style) << std::flush;
  const LineInput::Event event = input_->Next(line);
  if (event == LineInput::Event::kInterrupted) {
    OnInterruptedPrompt();
  } else {
    interrupted_prompt_ = false;
  }
  if (event == LineInput::Event::kEnd) {
    ended_ = true;
    if (screen_.interactive) *screen_.err << "\n" << std::flush;
  }
  return event;
}

void ChatSession::OnInterruptedPrompt() {
  if (!screen_.interactive) Interrupts::EndProcess();
  if (interrupted_prompt_) {
    ended_ = true;
    Say("");
  } else {
    Say("\n(Ctrl-C again, Ctrl-D or /exit ends)");
  }
  interrupted_prompt_ = true;
}

int ChatSession::Run(LineInput* input, Interrupts* interrupts) {
  input_ = input;
  interrupts_ = interrupts;
  if (screen_.interactive) {
    Say(absl::StrCat("Chatting with ", request_.model(), ". /help lists the commands; Ctrl-D ends."));
  }
  while (!ended_) {
    std::string message;
    if (ReadMessage(&message)) TakeMessage(message);
  }
  return failed_ && !screen_.interactive ? kExitFailed : kExitOk;
}

bool ChatSession::ReadMessage(std::string* message) {
  bool complete = false;
  while (!complete && !ended_) {
    std::string line;
    const LineInput::Event event = ReadLine(lines_.open() ? "... " : "> ", &line);
    if (event == LineInput::Event::kInterrupted) {
      lines_.Take();
      return false;
    }
    if (event == LineInput::Event::kLine) complete = lines_.Add(line);
  }
  *message = lines_.Take();
  return !message->empty();
}

void ChatSession::TakeMessage(const std::string& message) {
  if (!text::IsValidUtf8(message)) return Complain("a message is UTF-8; this one is not, and was not sent");
  const bool slash = message[0] == '/' && !lines_.block();
  if (slash && message.rfind("//", 0) != 0) return Obey(message);
  if (conversation_.AddUser(slash ? message.substr(1) : message, std::exchange(images_, {}))) {
    Say("(replaces the message before, which has no answer)");
  }
  Answer();
}

void ChatSession::Answer() {
  while (Ask() && ReadToolResults()) {
  }
}

bool ChatSession::Ask() {
  v1::GenerateRequest request = request_;
  conversation_.AppendTo(request.mutable_chat());
  AnswerPrinter printer(screen_.out, screen_.out_style);
  const CallResult result = RunGeneration(
      stub_.get(), request, timeout_ms_, [this] { return interrupts_->Take(); },
      [&printer](const v1::GenerateResponse& response) { printer.Add(response); });
  const CompletionOutput& output = result.completion.outputs[0];
  const bool good = result.status.ok();
  conversation_.AddAnswer(output, /*cut=*/!good);
  if (result.completion.execution.attention_backend() != v1::ATTENTION_BACKEND_UNSPECIFIED) {
    last_execution_ = result.completion.execution;
  }
  const bool nothing = output.text.empty() && output.reasoning.empty() && output.tool_calls.empty();
  if (good || !nothing) printer.End(output);
  if (good) {
    const std::string note = IncompleteNote(output.finish, request_.has_structured_output());
    if (!note.empty()) Say(note);
    PrintStatus(result.completion);
  } else if (result.stopped) {
    if (nothing && screen_.interactive) Say("");  // behind the terminal's "^C"
    Say(conversation_.NeedsAnswer() ? "(stopped before an answer; /regenerate asks again)"
                                    : "(stopped; what came is kept, /regenerate answers again)");
  } else {
    Complain(ErrorLine(result.status));
    if (screen_.interactive) {
      Say("(the conversation is kept: /regenerate asks again; /drop drops the oldest messages of one that is too "
          "long)");
    }
  }
  return good;
}

bool ChatSession::ReadToolResults() {
  if (conversation_.PendingCall() == nullptr) return false;
  while (const v1::ToolCall* call = conversation_.PendingCall()) {
    std::string text;
    const LineInput::Event event = ReadLine(absl::StrCat("tool result for ", call->name(), "> "), &text);
    if (event == LineInput::Event::kEnd) return false;
    if (event == LineInput::Event::kInterrupted) {
      conversation_.DropAnswer();
      Say("(the calls are dropped; /regenerate asks again)");
      return false;
    }
    if (!text::IsValidUtf8(text)) {
      Complain("a result is UTF-8; this one is not");
      text.clear();
    }
    conversation_.AddToolResult(text.empty() ? kNoResult : text);
  }
  return true;
}

void ChatSession::PrintStatus(const Completion& completion) {
  if (!screen_.interactive || !screen_.err_style.terminal || screen_.quiet) return;
  const v1::Finish& finish = completion.outputs[0].finish;
  const std::string line = absl::StrFormat(
      "[%s %s %s | %d prompt tokens, %d cached | %d tokens, %s | TTFT %.0f ms, %.1f tok/s]",
      BackendWord(completion.execution.attention_backend()), PrecisionWord(completion.execution.precision()),
      DeviceWord(completion.execution.device()), finish.usage().prompt_tokens(), finish.usage().cached_tokens(),
      finish.usage().completion_tokens(), FinishWord(finish.reason()), finish.timings().ttft_ms(),
      DecodeTokensPerSecond(finish));
  *screen_.err << Dimmed(line, screen_.err_style) << "\n" << std::flush;
}

}  // namespace dunlin::cli

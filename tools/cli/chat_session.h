// SPDX-License-Identifier: Apache-2.0
// The interactive part of `dunlin chat`: reads messages and commands, asks the server, prints what comes. Answers and
// what commands print go to `out`, prompts and notes to `err`. One thread; gRPC has its own.
#pragma once

#include <memory>
#include <ostream>
#include <string>
#include <vector>

#include "dunlin/v1/generation.grpc.pb.h"
#include "tools/cli/conversation.h"
#include "tools/cli/line_input.h"
#include "tools/cli/message_lines.h"
#include "tools/cli/terminal.h"

namespace dunlin::cli {

struct ChatScreen {
  std::ostream* out;
  TerminalStyle out_style;
  std::ostream* err;
  TerminalStyle err_style;
  bool interactive = false;  // a user types: prompts, notes and the line after each answer are printed
  bool quiet = false;        // but not that line
};

class ChatSession {
 public:
  // `request` holds everything but the messages; those of `request` begin the conversation. timeout_ms: of a call; 0:
  // none.
  ChatSession(std::unique_ptr<v1::GenerationService::Stub> stub, const v1::GenerateRequest& request, int64_t timeout_ms,
              std::string system, const ChatScreen& screen);

  // Until the input ends, /exit, or two Ctrl-C in a row. An exit status: 1 if nobody types and a call or a command
  // failed.
  int Run(LineInput* input, Interrupts* interrupts);

 private:
  // A row of /help. `run` gets what stands behind the name.
  struct Command {
    const char* name;
    const char* argument;
    const char* help;
    void (ChatSession::*run)(const std::string& argument);
  };
  static const Command kCommands[];

  // False: there is none.
  bool ReadMessage(std::string* message);
  void TakeMessage(const std::string& message);
  void Obey(const std::string& line);
  // What was asked for, to `out`.
  void Print(const std::string& text);
  // A note, to `err`.
  void Say(const std::string& text);
  // As Say, of something that failed.
  void Complain(const std::string& text);

  // Asks until there is an answer without tool calls.
  void Answer();
  // Whether the call went well.
  bool Ask();
  // Reads the results of the last answer's calls; false: it has none, or they are not to be had.
  bool ReadToolResults();
  void PrintStatus(const Completion& completion);
  void OnInterruptedPrompt();
  LineInput::Event ReadLine(const std::string& prompt, std::string* line);

  void Help(const std::string& argument);
  void Profile(const std::string& argument);
  void Seed(const std::string& argument);
  void Regenerate(const std::string& argument);
  void Undo(const std::string& argument);
  void Drop(const std::string& argument);
  void Reset(const std::string& argument);
  void Image(const std::string& argument);
  void System(const std::string& argument);
  void History(const std::string& argument);
  void Save(const std::string& argument);
  void Exit(const std::string& argument);

  const std::unique_ptr<v1::GenerationService::Stub> stub_;
  v1::GenerateRequest request_;  // without messages
  const int64_t timeout_ms_;
  const ChatScreen screen_;
  Conversation conversation_;
  std::vector<v1::ContentPart> images_;  // of the next message
  MessageLines lines_;
  LineInput* input_ = nullptr;
  Interrupts* interrupts_ = nullptr;
  v1::Execution last_execution_;  // empty until something ran
  bool ended_ = false;
  bool failed_ = false;
  bool interrupted_prompt_ = false;  // the last event was Ctrl-C at a prompt
};

}  // namespace dunlin::cli

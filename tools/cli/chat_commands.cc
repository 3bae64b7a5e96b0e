// SPDX-License-Identifier: Apache-2.0
// The commands that `dunlin chat` takes in place of a message: the table, and what each does.
#include <algorithm>
#include <fstream>
#include <iomanip>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "engine/base/string_view.h"
#include "tools/cli/chat_session.h"
#include "tools/cli/execution_name.h"
#include "tools/cli/execution_options.h"
#include "tools/cli/image_parts.h"

namespace dunlin::cli {
namespace {

constexpr int kHelpWidth = 28;

std::string ProfileText(v1::AttentionBackend backend, v1::Precision precision) {
  return absl::StrCat(BackendWord(backend), ":", PrecisionWord(precision));
}

}  // namespace

const ChatSession::Command ChatSession::kCommands[] = {
    {"/help", "", "this list", &ChatSession::Help},
    {"/profile", "BACKEND:PRECISION", "how the next answers run, flash:fp8 say; alone: what ran",
     &ChatSession::Profile},
    {"/seed", "N", "the seed of the next answers; alone: drawn by the server", &ChatSession::Seed},
    {"/regenerate", "", "answer the last message again", &ChatSession::Regenerate},
    {"/undo", "", "take back the last message and its answer", &ChatSession::Undo},
    {"/drop", "N", "drop the oldest N messages with their answers; alone: one", &ChatSession::Drop},
    {"/reset", "", "begin again; the system message stays", &ChatSession::Reset},
    {"/image", "FILE", "the next message begins with this image", &ChatSession::Image},
    {"/system", "TEXT", "set the system message, \"\" removes it; alone: show it", &ChatSession::System},
    {"/history", "", "the conversation as JSON", &ChatSession::History},
    {"/save", "FILE", "write /history to a file, for --messages @FILE", &ChatSession::Save},
    {"/exit", "", "end", &ChatSession::Exit},
};

void ChatSession::Obey(const std::string& line) {
  const size_t space = line.find_first_of(" \t\n");
  const std::string name = line.substr(0, space);
  const std::string argument(absl::StripAsciiWhitespace(
      space == std::string::npos ? absl::string_view() : absl::string_view(line).substr(space)));
  for (const Command& command : kCommands) {
    if (name != command.name) continue;
    if (!argument.empty() && *command.argument == '\0') return Complain(absl::StrCat(name, " takes no argument"));
    return (this->*command.run)(argument);
  }
  Complain(
      absl::StrCat("unknown command ", name, "; /help lists them, and a message that begins with / is typed with //"));
}

void ChatSession::Help(const std::string& /*argument*/) {
  for (const Command& command : kCommands) {
    *screen_.out << std::left << std::setw(kHelpWidth) << absl::StrCat(command.name, " ", command.argument)
                 << command.help << "\n";
  }
  *screen_.out
      << "A line is a message. It goes on in the next line after a \\ at its end; between \"\"\" and \"\"\" line "
         "breaks are kept.\nCtrl-C stops an answer, Ctrl-D ends.\n"
      << std::flush;
}

void ChatSession::Profile(const std::string& argument) {
  v1::ExecutionOptions& execution = *request_.mutable_execution();
  if (argument.empty()) {
    std::string text = absl::StrCat("profile ", ProfileText(execution.attention_backend(), execution.precision()));
    if (last_execution_.attention_backend() != v1::ATTENTION_BACKEND_UNSPECIFIED) {
      absl::StrAppend(&text, "; the last answer ran ", ExecutionJson(last_execution_).dump());
    }
    return Print(text);
  }
  const std::vector<std::string> words = absl::StrSplit(argument, ':');
  const std::vector<std::string> backends = BackendWords();
  const std::vector<std::string> precisions = PrecisionWords();
  if (words.size() != 2 || std::count(backends.begin(), backends.end(), words[0]) == 0 ||
      std::count(precisions.begin(), precisions.end(), words[1]) == 0) {
    return Complain(absl::StrCat("/profile takes BACKEND:PRECISION, of ", absl::StrJoin(backends, ", "), " and ",
                                 absl::StrJoin(precisions, ", ")));
  }
  ExecutionWords wanted;
  wanted.attention_backend = words[0];
  wanted.precision = words[1];
  const v1::ExecutionOptions named = ExecutionNamed(wanted);
  execution.set_attention_backend(named.attention_backend());
  execution.set_precision(named.precision());
  if (screen_.interactive) Say(absl::StrCat("(profile ", argument, "; /regenerate answers again with it)"));
}

void ChatSession::Seed(const std::string& argument) {
  uint64_t seed = 0;
  if (argument.empty()) return request_.mutable_sampling()->clear_seed();
  if (!absl::SimpleAtoi(argument, &seed)) return Complain("/seed takes a whole number from 0 to 18446744073709551615");
  request_.mutable_sampling()->set_seed(seed);
}

void ChatSession::Regenerate(const std::string& /*argument*/) {
  if (!conversation_.DropAnswer()) return Complain("there is no message to answer");
  Answer();
}

void ChatSession::Undo(const std::string& /*argument*/) {
  if (!conversation_.Undo()) return Complain("there is no message to take back");
  if (screen_.interactive) Say("(the last message and its answer are gone)");
}

void ChatSession::Drop(const std::string& argument) {
  uint32_t num_turns = 1;
  if (!argument.empty() && (!absl::SimpleAtoi(argument, &num_turns) || num_turns == 0)) {
    return Complain("/drop takes a number of messages, 1 or more");
  }
  const size_t dropped = conversation_.DropOldest(num_turns);
  if (dropped == 0 || screen_.interactive) Say(absl::StrCat("(dropped: ", dropped, ")"));
}

void ChatSession::Reset(const std::string& /*argument*/) {
  conversation_.Reset();
  images_.clear();
  if (screen_.interactive) Say("(a new conversation)");
}

void ChatSession::Image(const std::string& argument) {
  if (argument.empty()) return Complain("/image takes the name of a file");
  absl::StatusOr<v1::ContentPart> image = ImageOfFile("/image", argument);
  if (!image.ok()) return Complain(std::string(engine::StdView(image.status().message())));
  images_.push_back(*std::move(image));
  if (screen_.interactive) Say(absl::StrCat("(images of the next message: ", images_.size(), ")"));
}

void ChatSession::System(const std::string& argument) {
  if (!argument.empty()) return conversation_.SetSystem(argument == "\"\"" ? "" : argument);
  Print(conversation_.system().empty() ? "(no system message)" : conversation_.system());
}

void ChatSession::History(const std::string& /*argument*/) {
  nlohmann::ordered_json history = conversation_.ToJson();
  if (screen_.out_style.terminal) ShortenImages(&history);
  Print(screen_.out_style.terminal ? history.dump(2) : history.dump());
}

void ChatSession::Save(const std::string& argument) {
  if (argument.empty()) return Complain("/save takes the name of a file");
  std::ofstream file(argument, std::ios::binary);
  file << conversation_.ToJson().dump(2) << "\n";
  if (!file.flush()) return Complain(absl::StrCat("cannot write ", argument));
  if (screen_.interactive) Say(absl::StrCat("(saved to ", argument, ")"));
}

void ChatSession::Exit(const std::string& /*argument*/) {
  ended_ = true;
}

}  // namespace dunlin::cli

// SPDX-License-Identifier: Apache-2.0
// The conversation of `dunlin chat`: which messages the next request carries, and what undoing and regenerating leave
// of them. No input or output. Owned by the session, on its thread.
//
// A turn is a message of the user and all that follows it: answers, tool calls, results. An answer that was cut
// (Ctrl-C, a call that failed midway) is kept with what came, because it is what the user saw.
#pragma once

#include <cstddef>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "dunlin/v1/generation.pb.h"
#include "tools/cli/completion.h"

namespace dunlin::cli {

class Conversation {
 public:
  // Begins with these messages; a system message at their head becomes the conversation's.
  void Load(const v1::Chat& chat);

  // "" removes it.
  void SetSystem(std::string text) { system_ = std::move(text); }
  const std::string& system() const { return system_; }
  bool empty() const { return entries_.empty(); }

  // The user's next message, images before the text. One that is still unanswered is replaced; returns whether there
  // was one.
  bool AddUser(std::string text, std::vector<v1::ContentPart> images = {});
  // What was generated. A call whose arguments are not a JSON object is left out. An answer that was cut has no calls,
  // and is not added if it has no text and no reasoning either.
  void AddAnswer(const CompletionOutput& output, bool cut);
  // The first call of the last answer that has no result; null: none. Valid until the next change.
  const v1::ToolCall* PendingCall() const;
  // REQUIRES: PendingCall() is not null.
  void AddToolResult(std::string text);

  // Whether a request now would be answered: the last message is the user's or the last of the tools' results.
  bool NeedsAnswer() const;
  // Takes back the last answer, if there is one, so that it can be generated again. Returns NeedsAnswer().
  bool DropAnswer();
  // Takes back the last turn; false: there is none.
  bool Undo();
  // Drops the oldest turns, and messages before the first turn with it; returns how many turns there were to drop.
  size_t DropOldest(size_t num_turns);
  void Reset() { entries_.clear(); }

  // The messages of a request, the system's first.
  void AppendTo(v1::Chat* chat) const;
  // The same as MessageJson writes them; an answer that was cut has "cut": true.
  nlohmann::ordered_json ToJson() const;

 private:
  struct Entry {
    v1::ChatMessage message;
    bool cut = false;
  };

  bool LastIs(const char* role) const { return !entries_.empty() && entries_.back().message.role() == role; }

  std::string system_;
  std::vector<Entry> entries_;
};

}  // namespace dunlin::cli

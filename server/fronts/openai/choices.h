// SPDX-License-Identifier: Apache-2.0
// What chat completions and completions have in common: a head, choices by index, usage, and the order of their events.
// Owner: the call. Thread rule: one function at a time.
#pragma once

#include <map>
#include <span>
#include <string>

#include "server/fronts/openai/generation_body.h"
#include "server/http_calls/request_translator.h"
#include "server/http_calls/response_facts.h"

namespace dunlin::server {

class ChoicesTranslator : public RequestTranslator {
 public:
  // How a route's objects are called.
  struct Names {
    const char* id_prefix;     // "chatcmpl-"
    const char* event_object;  // of an event of a stream
    const char* object;        // of a whole response
  };
  ChoicesTranslator(const ResponseFacts& facts, const Names& names) : facts_(facts), names_(names) {}

  bool streams() const final { return options_.stream; }
  void OnChunk(const OutputChunk& chunk, std::string* out) final;
  void OnEnd(const ResponseEnd& end, std::string* out) final;
  std::string ErrorBody(const absl::Status& status) final;

 protected:
  // One choice so far; in JSON what is a list of parts.
  struct Choice {
    bool begun = false;
    std::string text;
    std::string reasoning;
    std::vector<ToolCallDelta> tool_calls;  // whole ones
    std::string logprobs;                   // elements of a list
    std::string prompt_logprobs;            // of chats and completions that ask for them
    std::vector<engine::TokenId> token_ids;
    std::optional<OutputFinish> finish;
    int32_t completion_tokens = 0;  // so far
  };
  // What the response depends on after Read.
  struct Options {
    bool stream = false;
    bool include_usage = false;
    bool continuous_usage = false;
    bool return_token_ids = false;
    bool logprobs = false;
    bool prompt_logprobs = false;
    std::string model;
  };

  // Keeps what the response depends on. Called by Read.
  void SetOptions(const GenerationBody& body);
  const Options& options() const { return options_; }
  const ResponseFacts& facts() const { return facts_; }

  // Appends what a chunk brings to a choice: `,"delta":{...},"logprobs":...`.
  virtual void AppendDelta(const OutputChunk& chunk, Choice* choice, std::string* out) = 0;
  // Adds a chunk to a choice of a whole response: what Gather does not.
  virtual void GatherLogprobs(const OutputChunk& chunk, Choice* choice) = 0;
  // Appends a whole choice: `,"message":{...},"logprobs":...`.
  virtual void AppendChoice(int32_t index, const Choice& choice, std::string* out) = 0;
  // The value of "prompt_logprobs" is the response's, not the choices'.
  virtual bool prompt_logprobs_on_top() const = 0;

 private:
  static const char* FinishName(const OutputFinish& finish);
  void Begin(const OutputChunk& first);
  void AppendEvent(const OutputChunk& chunk, Choice* choice, std::string* out);
  void AppendFinish(const OutputFinish* finish, std::string* out) const;
  void AppendExtension(const OutputChunk& chunk, std::string* out) const;
  void AppendUsage(const CallTotals& totals, std::string* out) const;
  void AppendContinuousUsage(std::string* out) const;
  void AppendDocument(std::string* out);
  void Gather(const OutputChunk& chunk, Choice* choice);

  const ResponseFacts facts_;
  const Names names_;
  Options options_;
  std::string head_;       // of every object: "id" to "system_fingerprint"
  std::string execution_;  // in JSON
  std::map<int32_t, Choice> choices_;
  CallTotals totals_;
};

}  // namespace dunlin::server

// SPDX-License-Identifier: Apache-2.0
#include "server/fronts/openai/completions.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "server/fronts/openai/field_names.h"
#include "server/json/json_text.h"
#include "server/serving/record/errors.h"

namespace dunlin::server {
namespace {

using V = JsonValue;
using B = GenerationBody;

ClientPrompt ReadOnePrompt(const V& value) {
  return value.is_array() ? ClientPrompt(value.TokenIds()) : ClientPrompt(value.Text());
}

// A text, token ids, or an array of these.
void ReadPrompt(const V& value, B* body) {
  if (!value.is_string() && (!value.is_array() || value.size() == 0)) {
    return value.Fail(value.Shown(), "a string or an array of token ids");
  }
  const bool is_list = value.is_array() && !value.At(size_t{0}).json().is_number();
  body->request->prompt = ReadOnePrompt(is_list ? value.At(size_t{0}) : value);
  if (!is_list) return;
  for (size_t i = 1; i < value.size() && value.ok(); ++i) body->further_prompts.push_back(ReadOnePrompt(value.At(i)));
}

constexpr GenerationRow kCompletionsFields[] = {
    Honoured<B>("prompt", ReadPrompt),
    Honoured<B>("max_tokens", [](const V& v, B* b) { b->request->stopping.max_tokens = v.Int(); }),
    Honoured<B>("n", [](const V& v, B* b) { b->request->num_outputs = v.Int(); }),
    Honoured<B>("best_of", [](const V& v, B* b) { b->best_of = v.Int(); }),
    Honoured<B>("stop", [](const V& v, B* b) { b->request->stopping.stop = v.TextOrTexts(); }),
    Honoured<B>("logprobs", [](const V& v, B* b) { b->request->output.logprobs = v.Int(); }),
    Honoured<B>("prompt_logprobs", [](const V& v, B* b) { b->request->output.prompt_logprobs = v.Int(); }),
    Honoured<B>("echo", [](const V& v, B* b) { b->request->output.echo = v.Bool(); }),
    Honoured<B>("return_token_ids", [](const V& v, B* b) { b->return_token_ids = v.Bool(); }),
    Honoured<B>("parse_special_tokens", [](const V& v, B* b) { b->request->parse_special_tokens = v.Bool(); }),
    Ignored<B>("user"),
    Ignored<B>("service_tier"),
    Refused<B>("suffix", "models here continue a text at its end", "\"\""),
    Refused<B>("add_special_tokens", "the tokenizer decides; send token ids instead", "true"),
    Refused<B>("prompt_embeds", "models here read tokens alone"),
    Refused<B>("logits_processors", "no code of requests is run"),
};

// Constraints across fields.
absl::Status CheckCompletionTogether(const GenerationBody& body) {
  const ClientRequest& request = *body.request;
  if (body.best_of.has_value() && *body.best_of != request.num_outputs) {
    return InvalidField("best_of", absl::StrCat("is ", *body.best_of),
                        absl::StrCat("n, which is ", request.num_outputs));
  }
  const bool scores_echo = request.output.echo && request.output.logprobs.has_value();
  const char* scores = scores_echo ? "logprobs with echo" : "prompt_logprobs";
  if ((scores_echo || request.output.prompt_logprobs.has_value()) && body.stream) {
    return InvalidField(scores, "is given with stream", "requests without \"stream\": true");
  }
  if (scores_echo && request.num_outputs > 1) {
    return InvalidField("n", absl::StrCat("is ", request.num_outputs, " beside echo with logprobs"), "1");
  }
  return absl::OkStatus();
}

}  // namespace

std::span<const GenerationTable> CompletionsFields() {
  static const auto kTables = WithSharedFields(GenerationTable(kCompletionsFields));
  return kTables;
}

absl::Status CompletionsTranslator::Read(std::string_view text, ClientRequest* request) {
  request->field_names = &kCompletionFieldNames;
  GenerationBody body(request, facts().strict);
  absl::Status status = ReadGenerationBody(text, CompletionsFields(), &body);
  SetOptions(body);
  if (status.ok()) status = CheckCompletionTogether(body);
  further_prompts_ = std::move(body.further_prompts);
  ClientOutput& output = request->output;
  if (!status.ok() || !output.echo || !output.logprobs.has_value()) return status;
  output.prompt_logprobs = std::max(*output.logprobs, output.prompt_logprobs.value_or(0));
  const bool whole = !request->truncate_prompt_tokens.has_value();
  echoes_.push_back(EchoOf(request->prompt, whole));
  for (const ClientPrompt& prompt : further_prompts_) echoes_.push_back(EchoOf(prompt, whole));
  return status;
}

void CompletionsTranslator::AppendDelta(const OutputChunk& chunk, Choice* /*choice*/, std::string* out) {
  out->push_back(',');
  AppendJsonMember("text", chunk.text, out);
  out->append(",\"logprobs\":");
  if (chunk.logprobs.empty()) {
    out->append("null");
    return;
  }
  CompletionLogprobs& logprobs = logprobs_[chunk.index];
  logprobs.Add(chunk.logprobs);
  logprobs.Take(out);
}

CompletionsTranslator::Echo CompletionsTranslator::EchoOf(const ClientPrompt& prompt, bool whole) {
  const auto* text = std::get_if<std::string>(&prompt);
  return {.prompt_bytes = text != nullptr && whole ? text->size() : 0, .scores = {}, .added = false};
}

void CompletionsTranslator::GatherLogprobs(const OutputChunk& chunk, Choice* choice) {
  if (!options().logprobs) return;
  if (!echoes_.empty()) {
    if (!chunk.prompt_logprobs.empty()) echo(chunk.index).scores.push_back(chunk.prompt_logprobs);
    if (!chunk.logprobs.empty()) AddEchoScores(chunk.index, *choice);
  }
  logprobs_[chunk.index].Add(chunk.logprobs);
}

void CompletionsTranslator::AddEchoScores(int32_t index, const Choice& choice) {
  Echo& prompt = echo(index);
  if (std::exchange(prompt.added, true)) return;
  size_t scored_bytes = 0;
  for (const TokenLogprobs& scores : prompt.scores) {
    for (size_t i = 0; i < scores.size(); ++i) scored_bytes += scores[i].bytes.size();
  }
  const size_t first_bytes = prompt.prompt_bytes > scored_bytes ? prompt.prompt_bytes - scored_bytes : 0;
  CompletionLogprobs& logprobs = logprobs_[index];
  logprobs.AddUnscored(std::string_view(choice.text).substr(0, first_bytes));
  for (const TokenLogprobs& scores : prompt.scores) logprobs.Add(scores);
  prompt.scores.clear();
}

void CompletionsTranslator::AppendChoice(int32_t index, const Choice& choice, std::string* out) {
  out->push_back(',');
  AppendJsonMember("text", choice.text, out);
  out->append(",\"logprobs\":");
  if (!options().logprobs) {
    out->append("null");
    return;
  }
  if (!echoes_.empty()) AddEchoScores(index, choice);
  logprobs_[index].Take(out);
}

}  // namespace dunlin::server

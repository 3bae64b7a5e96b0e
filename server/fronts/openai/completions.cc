// SPDX-License-Identifier: Apache-2.0
#include "server/fronts/openai/completions.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "server/fronts/openai/field_names.h"
#include "server/fronts/openai/json_text.h"
#include "server/serving/errors.h"

namespace dunlin::server {
namespace {

using V = JsonValue;
using B = GenerationBody;

// A text, token ids, or an array of one of these.
void ReadPrompt(const V& value, B* body) {
  if (value.is_string()) {
    body->request->prompt = value.Text();
    return;
  }
  if (!value.is_array() || value.size() == 0) return value.Fail(value.Shown(), "a string or an array of token ids");
  const V first = value.At(size_t{0});
  if (!first.is_string() && !first.is_array()) {
    body->request->prompt = value.TokenIds();
    return;
  }
  if (value.size() > 1)
    return value.Fail(absl::StrCat("has ", value.size(), " prompts"), "1; send one request for each");
  if (first.is_string()) {
    body->request->prompt = first.Text();
  } else {
    body->request->prompt = first.TokenIds();
  }
}

constexpr GenerationRow kFields[] = {
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
    Refused<B>("suffix"),
    Refused<B>("add_special_tokens", "true"),
    Refused<B>("prompt_embeds"),
};

// What no single field tells.
absl::Status CheckTogether(const GenerationBody& body) {
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
  static const GenerationTable kTables[] = {GenerationTable(kFields), kSamplingFields, kServingFields, kStructureFields,
                                            kStreamFields};
  return kTables;
}

absl::Status CompletionsTranslator::Read(std::string_view text, ClientRequest* request) {
  request->field_names = &kCompletionFieldNames;
  GenerationBody body(request);
  absl::Status status = ReadGenerationBody(text, CompletionsFields(), &body);
  SetOptions(body);
  if (status.ok()) status = CheckTogether(body);
  ClientOutput& output = request->output;
  scores_echo_ = status.ok() && output.echo && output.logprobs.has_value();
  if (!scores_echo_) return status;
  output.prompt_logprobs = std::max(*output.logprobs, output.prompt_logprobs.value_or(0));
  const auto* prompt = std::get_if<std::string>(&request->prompt);
  if (prompt != nullptr && !request->truncate_prompt_tokens.has_value()) prompt_bytes_ = prompt->size();
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

void CompletionsTranslator::GatherLogprobs(const OutputChunk& chunk, Choice* choice) {
  if (!options().logprobs) return;
  if (scores_echo_ && !chunk.prompt_logprobs.empty()) echo_scores_.push_back(chunk.prompt_logprobs);
  if (scores_echo_ && !chunk.logprobs.empty()) AddEchoScores(*choice);
  logprobs_[chunk.index].Add(chunk.logprobs);
}

void CompletionsTranslator::AddEchoScores(const Choice& choice) {
  size_t scored_bytes = 0;
  for (const TokenLogprobs& scores : echo_scores_) {
    for (size_t i = 0; i < scores.size(); ++i) scored_bytes += scores[i].bytes.size();
  }
  const size_t first_bytes = prompt_bytes_ > scored_bytes ? prompt_bytes_ - scored_bytes : 0;
  CompletionLogprobs& logprobs = logprobs_[0];
  logprobs.AddUnscored(std::string_view(choice.text).substr(0, first_bytes));
  for (const TokenLogprobs& scores : echo_scores_) logprobs.Add(scores);
  echo_scores_.clear();
  scores_echo_ = false;
}

void CompletionsTranslator::AppendChoice(int32_t index, const Choice& choice, std::string* out) {
  out->push_back(',');
  AppendJsonMember("text", choice.text, out);
  out->append(",\"logprobs\":");
  if (!options().logprobs) {
    out->append("null");
    return;
  }
  if (scores_echo_) AddEchoScores(choice);
  logprobs_[index].Take(out);
}

}  // namespace dunlin::server

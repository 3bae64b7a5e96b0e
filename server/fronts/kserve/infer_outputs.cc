// SPDX-License-Identifier: Apache-2.0
#include "server/fronts/kserve/infer_outputs.h"

#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "server/fronts/kserve/tensor_codec.h"
#include "server/serving/record/errors.h"

namespace dunlin::server::kserve {
namespace {

using Json = nlohmann::ordered_json;
using Parts = std::span<const OutputPart>;

// vLLM's form of a scored token, by its id.
void AddScored(engine::TokenId id, float logprob, int32_t rank, std::string_view bytes, Json* token) {
  Json& scored = (*token)[std::to_string(id)];
  scored["logprob"] = logprob;
  scored["rank"] = rank;
  scored["decoded_token"] = std::string(bytes);
}

template <class Values, class Value>
Values Collect(Parts parts, Value OutputPart::*member) {
  Values values;
  for (const OutputPart& part : parts) values.push_back(part.*member);
  return values;
}

void AddCumulative(std::string_view name, Parts parts, inference::ModelInferResponse* response) {
  std::vector<float> sums;
  for (const OutputPart& part : parts) sums.push_back(static_cast<float>(part.cumulative_logprob));
  AddFp32Output(name, sums, response);
}

void AddLogprobs(std::string_view name, Parts parts, inference::ModelInferResponse* response) {
  std::vector<std::string> texts;
  for (const OutputPart& part : parts) texts.push_back(absl::StrCat("[", part.logprobs, "]"));
  AddBytesOutput(name, texts, response);
}

void AddTokenLogprobs(std::string_view name, Parts parts, inference::ModelInferResponse* response) {
  std::vector<float> all;
  for (const OutputPart& part : parts) all.insert(all.end(), part.token_logprobs.begin(), part.token_logprobs.end());
  AddFp32Output(name, all, response);
}

template <auto kMember>
void AddTexts(std::string_view name, Parts parts, inference::ModelInferResponse* response) {
  AddBytesOutput(name, Collect<std::vector<std::string>>(parts, kMember), response);
}

template <auto kMember>
void AddCounts(std::string_view name, Parts parts, inference::ModelInferResponse* response) {
  AddUint32Output(name, Collect<std::vector<int32_t>>(parts, kMember), response);
}

void AddIndices(std::string_view name, Parts parts, inference::ModelInferResponse* response) {
  AddInt32Output(name, Collect<std::vector<int32_t>>(parts, &OutputPart::index), response);
}

// All outputs have one prompt.
void AddInputTokens(std::string_view name, Parts parts, inference::ModelInferResponse* response) {
  AddCounts<&OutputPart::num_input_tokens>(name, parts.first(1), response);
}

constexpr OutputRow kOutputRows[] = {
    {"text_output", kTextOutput, "BYTES", true, AddTexts<&OutputPart::text>},
    {"finish_reason", kFinishReason, "BYTES", true, AddTexts<&OutputPart::finish_reason>},
    {"cumulative_logprob", kCumulativeLogprob, "FP32", true, AddCumulative},
    {"logprobs", kLogprobs, "BYTES", true, AddLogprobs},
    {"num_input_tokens", kNumInputTokens, "UINT32", true, AddInputTokens},
    {"num_output_tokens", kNumOutputTokens, "UINT32", true, AddCounts<&OutputPart::num_tokens>},
    {"cum_log_probs", kCumLogProbs, "FP32", false, AddCumulative},
    {"output_log_probs", kOutputLogProbs, "FP32", false, AddTokenLogprobs},
    {"sequence_index", kSequenceIndex, "INT32", false, AddIndices},
};

}  // namespace

void Accumulate(const OutputChunk& chunk, OutputPart* part) {
  part->index = chunk.index;
  part->text.append(chunk.text);
  part->num_tokens += static_cast<int32_t>(chunk.token_ids.size());
  for (size_t i = 0; i < chunk.logprobs.size(); ++i) {
    const TokenLogprobs::Entry entry = chunk.logprobs[i];
    part->token_logprobs.push_back(entry.logprob);
    part->cumulative_logprob += double{entry.logprob};
    Json token = Json::object();
    AddScored(entry.token_id, entry.logprob, entry.rank, entry.bytes, &token);
    for (size_t k = 0; k < entry.top.size(); ++k) {
      const TokenLogprobs::Scored& top = entry.top[k];
      if (top.token_id == entry.token_id) continue;
      AddScored(top.token_id, top.logprob, static_cast<int32_t>(k) + 1, chunk.logprobs.BytesOf(top), &token);
    }
    absl::StrAppend(&part->logprobs, part->logprobs.empty() ? "" : ",",
                    token.dump(-1, ' ', false, Json::error_handler_t::replace));
  }
  if (!chunk.finish.has_value()) return;
  part->finish_reason = FinishReasonName(chunk.finish->reason);
  part->constraint_error = chunk.finish->constraint_error;
  part->num_input_tokens = chunk.finish->usage.prompt_tokens;
  part->drafted_tokens = chunk.finish->usage.drafted_tokens;
  part->accepted_tokens = chunk.finish->usage.accepted_tokens;
}

void ClearSent(OutputPart* part) {
  part->text.clear();
  part->logprobs.clear();
  part->token_logprobs.clear();
  part->num_tokens = 0;
}

std::span<const OutputRow> OutputRows() {
  return kOutputRows;
}

OutputSet OutputNamed(std::string_view name) {
  for (const OutputRow& row : kOutputRows) {
    if (name == row.name) return row.output;
  }
  return 0;
}

void AddOutputs(OutputSet outputs, Parts parts, inference::ModelInferResponse* response) {
  for (const OutputRow& row : kOutputRows) {
    if ((outputs & row.output) != 0) row.add(row.name, parts, response);
  }
}

}  // namespace dunlin::server::kserve

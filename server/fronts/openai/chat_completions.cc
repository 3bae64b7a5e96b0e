// SPDX-License-Identifier: Apache-2.0
#include "server/fronts/openai/chat_completions.h"

#include "absl/strings/str_cat.h"
#include "server/fronts/openai/chat_messages.h"
#include "server/fronts/openai/chat_tools.h"
#include "server/fronts/openai/field_names.h"
#include "server/http_calls/logprobs_text.h"
#include "server/json/json_text.h"
#include "server/serving/record/errors.h"

namespace dunlin::server {
namespace {

using V = JsonValue;
using B = GenerationBody;

void ReadMaxTokens(const V& value, B* body) {
  const int32_t max_tokens = value.AtLeast(1);
  std::optional<int32_t>& out = body->request->stopping.max_tokens;
  if (out.has_value() && *out != max_tokens) value.Fail("differs from its other name", absl::StrCat(*out));
  out = max_tokens;
}

constexpr GenerationRow kChatFields[] = {
    Honoured<B>("messages", ReadMessages),
    Honoured<B>("tools", ReadTools),
    Honoured<B>("tool_choice", ReadToolChoice),
    Honoured<B>("parallel_tool_calls", [](const V& v, B* b) { b->request->tool_choice.parallel = v.Bool(); }),
    Honoured<B>("max_tokens",
                [](const V& v, B* b) {
                  ReadMaxTokens(v, b);
                  b->request->field_names = &kOlderChatFieldNames;
                }),
    Honoured<B>("max_completion_tokens", ReadMaxTokens),
    Honoured<B>("n", [](const V& v, B* b) { b->request->num_outputs = v.Int(); }),
    Honoured<B>("stop", [](const V& v, B* b) { b->request->stopping.stop = v.TextOrTexts(); }),
    Honoured<B>("logprobs", [](const V& v, B* b) { b->logprobs = v.Bool(); }),
    Honoured<B>("top_logprobs", [](const V& v, B* b) { b->top_logprobs = v.Int(); }),
    Honoured<B>("prompt_logprobs", [](const V& v, B* b) { b->request->output.prompt_logprobs = v.Int(); }),
    Honoured<B>("echo", [](const V& v, B* b) { b->request->output.echo = v.Bool(); }),
    Honoured<B>("return_token_ids", [](const V& v, B* b) { b->return_token_ids = v.Bool(); }),
    Honoured<B>("reasoning_effort", [](const V& v, B* b) { SetTemplateOption(v, "reasoning_effort", v.Text(), b); }),
    Honoured<B>("chat_template_kwargs", ReadTemplateOptions),
    Honoured<B>("add_generation_prompt", [](const V& v, B* b) { b->add_generation_prompt = v.Bool(); }),
    Honoured<B>("continue_final_message", [](const V& v, B* b) { b->chat.continue_final_message = v.Bool(); }),
    Honoured<B>("parse_special_tokens", [](const V& v, B* b) { b->chat.parse_special_tokens = v.Bool(); }),
    Honoured<B>("raw_chat_output", [](const V& v, B* b) { b->request->output.raw_chat = v.Bool(); }),
    Ignored<B>("user"),
    Ignored<B>("safety_identifier"),
    Ignored<B>("metadata"),
    Ignored<B>("service_tier"),
    Ignored<B>("prediction"),
    Ignored<B>("prompt_cache_key"),
    Ignored<B>("prompt_cache_retention"),
    Ignored<B>("prompt_cache_options"),
    Ignored<B>("store", [](const V& v, B*) { v.Bool(); }),
    Ignored<B>("verbosity", [](const V& v, B*) { ExpectVerbosity(v); }),
    Ignored<B>("web_search_options", [](const V& v, B*) { v.Ignore(); }),
    Refused<B>("modalities", "models here write text alone", "[\"text\"]"),
    Refused<B>("audio", "models here write text alone"),
    Refused<B>("moderation", "there is no moderation model"),
    Refused<B>("functions", "tools has them", "[]"),
    Refused<B>("function_call", "tool_choice has it", "\"none\""),
    Refused<B>("include_reasoning", "an answer has its reasoning", "true"),
    Refused<B>("add_special_tokens", "the chat template writes them", "false"),
    Refused<B>("chat_template", "models[].chat_template sets it"),
    Refused<B>("documents", "messages have them as text"),
    Refused<B>("mm_processor_kwargs", "the model's own settings decide how an image is read"),
    Refused<B>("logits_processors", "no code of requests is run"),
    Refused<B>("best_of", "n outputs are returned, none chosen", "1"),
};

// Constraints across fields.
absl::Status CheckChatTogether(const GenerationBody& body) {
  if (body.top_logprobs.value_or(0) != 0 && !body.logprobs) {
    return InvalidField("top_logprobs", "is given without logprobs", "requests with \"logprobs\": true");
  }
  if (body.stream && body.request->output.prompt_logprobs.has_value()) {
    return InvalidField("prompt_logprobs", "is given with stream", "requests without \"stream\": true");
  }
  return absl::OkStatus();
}

void AppendToolCallDelta(const ToolCallDelta& delta, std::string* out) {
  absl::StrAppend(out, "{\"index\":", delta.tool_index, ",");
  if (!delta.id.empty()) {
    AppendJsonMember("id", delta.id, out);
    out->append(",\"type\":\"function\",");
  }
  out->append("\"function\":{");
  if (!delta.name.empty()) {
    AppendJsonMember("name", delta.name, out);
    out->push_back(',');
  }
  AppendJsonMember("arguments", delta.arguments, out);
  out->append("}}");
}

void AppendToolCall(const ToolCallDelta& call, std::string* out) {
  out->push_back('{');
  AppendJsonMember("id", call.id, out);
  out->append(",\"type\":\"function\",\"function\":{");
  AppendJsonMember("name", call.name, out);
  out->push_back(',');
  AppendJsonMember("arguments", call.arguments, out);
  out->append("}}");
}

// `"tool_calls":[...]`
template <class Append>
void AppendToolCalls(const std::vector<ToolCallDelta>& calls, Append append, std::string* out) {
  out->append("\"tool_calls\":[");
  for (const ToolCallDelta& call : calls) {
    if (&call != calls.data()) out->push_back(',');
    append(call, out);
  }
  out->push_back(']');
}

// Under both names that clients know: the one of vLLM and DeepSeek, and the one of OpenRouter and later vLLM.
void AppendReasoning(std::string_view text, std::string* out) {
  AppendJsonMember("reasoning_content", text, out);
  out->push_back(',');
  AppendJsonMember("reasoning", text, out);
}

void AppendLogprobsObject(std::string_view elements, std::string* out) {
  out->append(",\"logprobs\":{\"content\":[");
  out->append(elements);
  out->append("],\"refusal\":null}");
}

}  // namespace

std::span<const GenerationTable> ChatCompletionsFields() {
  static const auto kTables = WithSharedFields(GenerationTable(kChatFields));
  return kTables;
}

absl::Status ChatCompletionsTranslator::Read(std::string_view text, ClientRequest* request) {
  request->field_names = &kChatFieldNames;
  GenerationBody body(request, facts().strict);
  absl::Status status = ReadGenerationBody(text, ChatCompletionsFields(), &body);
  FinishChat(&body);
  SetOptions(body);
  return status.ok() ? CheckChatTogether(body) : status;
}

void ChatCompletionsTranslator::AppendDelta(const OutputChunk& chunk, Choice* choice, std::string* out) {
  out->append(",\"delta\":{");
  const char* separator = "";
  if (!choice->begun) {
    out->append("\"role\":\"assistant\"");
    separator = ",";
  }
  if (!chunk.reasoning.empty()) {
    out->append(separator);
    AppendReasoning(chunk.reasoning, out);
    separator = ",";
  }
  const bool first_and_empty = !choice->begun && chunk.reasoning.empty() && chunk.tool_calls.empty();
  if (!chunk.text.empty() || first_and_empty) {
    out->append(separator);
    AppendJsonMember("content", chunk.text, out);
    separator = ",";
  }
  if (!chunk.tool_calls.empty()) {
    out->append(separator);
    AppendToolCalls(chunk.tool_calls, AppendToolCallDelta, out);
  }
  out->push_back('}');
  if (chunk.logprobs.empty()) {
    out->append(",\"logprobs\":null");
    return;
  }
  std::string elements;
  AppendChatLogprobs(chunk.logprobs, &elements);
  AppendLogprobsObject(elements, out);
}

void ChatCompletionsTranslator::GatherLogprobs(const OutputChunk& chunk, Choice* choice) {
  AppendChatLogprobs(chunk.logprobs, &choice->logprobs);
}

void ChatCompletionsTranslator::AppendChoice(int32_t /*index*/, const Choice& choice, std::string* out) {
  out->append(",\"message\":{\"role\":\"assistant\",");
  if (choice.text.empty() && !choice.tool_calls.empty()) {
    out->append("\"content\":null");
  } else {
    AppendJsonMember("content", choice.text, out);
  }
  out->append(",\"refusal\":null");
  if (!choice.reasoning.empty()) {
    out->push_back(',');
    AppendReasoning(choice.reasoning, out);
  }
  if (!choice.tool_calls.empty()) {
    out->push_back(',');
    AppendToolCalls(choice.tool_calls, AppendToolCall, out);
  }
  out->push_back('}');
  if (options().logprobs) {
    AppendLogprobsObject(choice.logprobs, out);
  } else {
    out->append(",\"logprobs\":null");
  }
}

}  // namespace dunlin::server

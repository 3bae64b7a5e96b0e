// SPDX-License-Identifier: Apache-2.0
// What an error can say of a client's request: which field, what is wrong with it, what the limit is. The engine and
// the serving core report fields; each front end names them in its own terms. Plain data and pure functions, any
// thread.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>

namespace dunlin::engine {

enum class RequestField : uint8_t {
  kModel,
  kRequestId,
  kPriority,
  kCacheSalt,
  // The prompt of a generation, the text or the tokens of a tokenizer call.
  kPrompt,  // of whatever kind
  kPromptText,
  kPromptTokens,
  kPromptToken,  // [index]
  kTruncatePromptTokens,
  // Sampling.
  kNumOutputs,
  kTemperature,
  kTopK,
  kTopP,
  kMinP,
  kRepetitionPenalty,
  kPresencePenalty,
  kFrequencyPenalty,
  kLogitBias,
  kLogitBiasToken,
  kLogitBiasValue,  // [token id]
  kAllowedTokenIds,
  kAllowedTokenId,  // [index]
  kBadWordsIds,
  kBadWordIds,  // [index]
  kBadWordId,   // [index of the sequence][index of the token]
  kBadWords,
  kBadWord,  // [index]
  // Stopping.
  kMaxTokens,
  kMinTokens,
  kStopStrings,
  kStopString,  // [index]
  kStopTokenIds,
  kStopTokenId,  // [index]
  // Output.
  kLogprobs,
  kPromptLogprobs,
  kOmitText,
  kEcho,
  // Execution.
  kDevice,
  kAttentionBackend,
  kPrecision,
  // Embeddings.
  kInputs,
  kInput,        // [index]
  kInputText,    // [index]
  kInputTokens,  // [index]
  kInputToken,   // [index of the input][index of the token]
  kPooling,
  kDimensions,
  kPromptName,
  kQuery,
  kTopN,
  // Chats.
  kChat,
  kChatMessages,
  kChatMessage,            // [index]
  kChatRole,               // [message]
  kChatContent,            // [message]
  kChatParts,              // [message]
  kChatPartType,           // [message][part]
  kChatPartText,           // [message][part]
  kChatToolCalls,          // [message]
  kChatToolCallName,       // [message][call]
  kChatToolCallArguments,  // [message][call]
  kChatExtraFields,        // [message]
  kChatTools,
  kChatTemplateOptions,
  kChatAddGenerationPrompt,
  kChatContinueFinalMessage,
  kChatParseSpecialTokens,
  kToolChoice,
  kToolChoiceName,
  kParallelToolCalls,
  kRawChatOutput,
  // Structured output.
  kStructuredOutput,
  kJsonSchema,
  kJsonObject,
  kRegex,
  kChoices,
  kChoice,  // [index]
  kGrammar,
};
inline constexpr size_t kNumRequestFields = static_cast<size_t>(RequestField::kGrammar) + 1;

// How one kind of message names the fields: "sampling.top_p", "stopping.stop[*]". Each '*' stands for an index.
class FieldNames {
 public:
  struct Row {
    RequestField field;
    const char* name;
  };
  // The fields' plain names ("top_p"), but those of the rows.
  constexpr explicit FieldNames(std::initializer_list<Row> rows) : names_(kPlainNames) {
    for (const Row& row : rows) names_[static_cast<size_t>(row.field)] = row.name;
  }
  constexpr const char* operator[](RequestField field) const { return names_[static_cast<size_t>(field)]; }

 private:
  using Names = std::array<const char*, kNumRequestFields>;
  static constexpr Names kPlainNames = {"model",
                                        "request_id",
                                        "priority",
                                        "cache_salt",
                                        "prompt",
                                        "prompt",
                                        "prompt",
                                        "prompt[*]",
                                        "truncate_prompt_tokens",
                                        "n",
                                        "temperature",
                                        "top_k",
                                        "top_p",
                                        "min_p",
                                        "repetition_penalty",
                                        "presence_penalty",
                                        "frequency_penalty",
                                        "logit_bias",
                                        "logit_bias key",
                                        "logit_bias[*]",
                                        "allowed_token_ids",
                                        "allowed_token_ids[*]",
                                        "bad_words_ids",
                                        "bad_words_ids[*]",
                                        "bad_words_ids[*][*]",
                                        "bad_words",
                                        "bad_words[*]",
                                        "max_tokens",
                                        "min_tokens",
                                        "stop",
                                        "stop[*]",
                                        "stop_token_ids",
                                        "stop_token_ids[*]",
                                        "logprobs",
                                        "prompt_logprobs",
                                        "omit_text",
                                        "echo",
                                        "device",
                                        "attention_backend",
                                        "precision",
                                        "inputs",
                                        "inputs[*]",
                                        "inputs[*]",
                                        "inputs[*]",
                                        "inputs[*][*]",
                                        "pooling",
                                        "dimensions",
                                        "prompt_name",
                                        "query",
                                        "top_n",
                                        "chat",
                                        "messages",
                                        "messages[*]",
                                        "messages[*].role",
                                        "messages[*].content",
                                        "messages[*].parts",
                                        "messages[*].parts[*].type",
                                        "messages[*].parts[*].text",
                                        "messages[*].tool_calls",
                                        "messages[*].tool_calls[*].name",
                                        "messages[*].tool_calls[*].arguments_json",
                                        "messages[*].extra_fields_json",
                                        "tools_json",
                                        "template_options_json",
                                        "add_generation_prompt",
                                        "continue_final_message",
                                        "parse_special_tokens",
                                        "tool_choice",
                                        "tool_choice.name",
                                        "parallel_tool_calls",
                                        "raw_chat_output",
                                        "structured_output",
                                        "json_schema",
                                        "json_object",
                                        "regex",
                                        "choice",
                                        "choice[*]",
                                        "grammar"};
  Names names_;
};
inline constexpr FieldNames kPlainFieldNames({});

// One field that is not as it must be.
struct Violation {
  RequestField field = RequestField::kModel;
  std::string problem;                // "is 1.5", "has 17 entries"
  std::string limit;                  // "(0, 1]"; "" when the problem says it all
  std::array<int64_t, 2> index = {};  // of the '*' in the field's name, in order
  std::optional<RequestField> other;  // the field whose name takes the place of a '*' in `problem`
};

// "sampling.logit_bias[7]"
std::string NameOf(const Violation& violation, const FieldNames& names);
// "sampling.top_p is 1.5; limit is (0, 1]"
std::string Describe(const Violation& violation, const FieldNames& names);

}  // namespace dunlin::engine

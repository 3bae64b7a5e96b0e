// SPDX-License-Identifier: Apache-2.0
// What an error can say of a request: which field, what is wrong with it, what the limit is. The engine's checks report
// the fields of RequestField; those that a client's API has besides are the serving core's
// (server/serving/record/client_field.h). Each front end names both in its own terms. Plain data and pure functions,
// any thread.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <utility>

namespace dunlin::engine {

enum class RequestField : uint8_t {
  kPriority,
  kCacheSalt,
  // The prompt of a generation, the text or the tokens of a tokenizer call.
  kPromptTokens,
  kPromptToken,  // [index]
  // Sampling.
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
  // Stopping.
  kMaxTokens,
  kMinTokens,
  kStopTokenIds,
  kStopTokenId,  // [index]
  // Output.
  kLogprobs,
  kPromptLogprobs,
  // Execution.
  kPrecision,
  // Embeddings.
  kInputs,
  kInput,       // [index]
  kInputToken,  // [index of the input][index of the token]
  kDimensions,
};
inline constexpr size_t kNumRequestFields = static_cast<size_t>(RequestField::kDimensions) + 1;

// Enumerations of fields: this one, and those whose numbers follow.
template <class Enum>
inline constexpr bool kIsFieldEnum = false;
template <>
inline constexpr bool kIsFieldEnum<RequestField> = true;

// A field of any of them, by its number.
class Field {
 public:
  template <class Enum>
  requires kIsFieldEnum<Enum>
  constexpr Field(Enum field) : id_(static_cast<uint8_t>(field)) {}  // NOLINT(google-explicit-constructor)
  constexpr explicit Field(uint8_t id) : id_(id) {}

  constexpr uint8_t id() const { return id_; }
  constexpr bool operator==(const Field& other) const = default;

 private:
  uint8_t id_;
};

// How messages name a field: "sampling.top_p", "stopping.stop[*]". Each '*' stands for an index.
struct NamedField {
  Field field;
  const char* name;
};

// Whether the rows are those of the fields from number `first` on, in order.
constexpr bool InOrder(std::span<const NamedField> rows, size_t first) {
  for (const NamedField& row : rows) {
    if (row.field.id() != first++) return false;
  }
  return true;
}

// The fields' plain names.
inline constexpr NamedField kRequestFieldTable[kNumRequestFields] = {
    {RequestField::kPriority, "priority"},
    {RequestField::kCacheSalt, "cache_salt"},
    {RequestField::kPromptTokens, "prompt"},
    {RequestField::kPromptToken, "prompt[*]"},
    {RequestField::kTemperature, "temperature"},
    {RequestField::kTopK, "top_k"},
    {RequestField::kTopP, "top_p"},
    {RequestField::kMinP, "min_p"},
    {RequestField::kRepetitionPenalty, "repetition_penalty"},
    {RequestField::kPresencePenalty, "presence_penalty"},
    {RequestField::kFrequencyPenalty, "frequency_penalty"},
    {RequestField::kLogitBias, "logit_bias"},
    {RequestField::kLogitBiasToken, "logit_bias key"},
    {RequestField::kLogitBiasValue, "logit_bias[*]"},
    {RequestField::kAllowedTokenIds, "allowed_token_ids"},
    {RequestField::kAllowedTokenId, "allowed_token_ids[*]"},
    {RequestField::kBadWordsIds, "bad_words_ids"},
    {RequestField::kBadWordIds, "bad_words_ids[*]"},
    {RequestField::kBadWordId, "bad_words_ids[*][*]"},
    {RequestField::kMaxTokens, "max_tokens"},
    {RequestField::kMinTokens, "min_tokens"},
    {RequestField::kStopTokenIds, "stop_token_ids"},
    {RequestField::kStopTokenId, "stop_token_ids[*]"},
    {RequestField::kLogprobs, "logprobs"},
    {RequestField::kPromptLogprobs, "prompt_logprobs"},
    {RequestField::kPrecision, "precision"},
    {RequestField::kInputs, "inputs"},
    {RequestField::kInput, "inputs[*]"},
    {RequestField::kInputToken, "inputs[*][*]"},
    {RequestField::kDimensions, "dimensions"},
};
static_assert(InOrder(kRequestFieldTable, 0));

// Names by Field::id().
using FieldNameList = std::span<const char* const>;
inline constexpr std::array<const char*, kNumRequestFields> kPlainFieldNames = [] {
  std::array<const char*, kNumRequestFields> names{};
  for (const NamedField& row : kRequestFieldTable) names[row.field.id()] = row.name;
  return names;
}();

using FieldIndex = std::array<int64_t, 2>;

// One field that is not as it must be.
struct Violation {
  Field field;
  std::string problem;         // "is 1.5", "has 17 entries"
  std::string limit;           // "(0, 1]"; "" when the problem says it all
  FieldIndex index;            // of the '*' in the field's name, in order
  std::optional<Field> other;  // the field whose name takes the place of a '*' in `problem`

  static Violation Of(Field field, std::string problem, std::string limit, FieldIndex index = {}) {
    return {field, std::move(problem), std::move(limit), index, std::nullopt};
  }
  // problem: names `other` by a '*'.
  static Violation Against(Field other, Field field, std::string problem, std::string limit) {
    return {field, std::move(problem), std::move(limit), {}, other};
  }
};

// "sampling.logit_bias[7]". REQUIRES of both: names has the fields of the violation.
std::string NameOf(const Violation& violation, FieldNameList names);
// "sampling.top_p is 1.5; limit is (0, 1]"
std::string Describe(const Violation& violation, FieldNameList names);

}  // namespace dunlin::engine

// SPDX-License-Identifier: Apache-2.0
#include "tools/bench/grammar_constraint.h"

#include "absl/strings/str_cat.h"
#include "text/grammar.h"
#include "text/tokenizer.h"
#include "tools/bench/synthetic_vocabulary.h"

namespace dunlin::tools::bench {
namespace {

constexpr char kSchema[] = R"({
  "type": "array", "minItems": 1000, "items": {
    "type": "object",
    "properties": {
      "id": {"type": "integer"},
      "title": {"type": "string"},
      "kind": {"enum": ["order", "refund", "transfer"]},
      "amount": {"type": "number"},
      "paid": {"type": "boolean"},
      "customer": {
        "type": "object",
        "properties": {"name": {"type": "string"}, "city": {"type": ["string", "null"]}},
        "required": ["name", "city"], "additionalProperties": false},
      "notes": {"type": "array", "items": {"type": "string"}}},
    "required": ["id", "title", "kind", "amount", "paid", "customer", "notes"],
    "additionalProperties": false}})";

absl::StatusOr<std::unique_ptr<text::Tokenizer>> TokenizerOf(const std::string& model_dir, int32_t vocab_size) {
  if (!model_dir.empty()) return text::Tokenizer::Load(model_dir, vocab_size);
  if (vocab_size < kMinSyntheticVocabulary) {
    return absl::InvalidArgumentError(absl::StrCat("the model has ", vocab_size, " tokens; a vocabulary for --grammar ",
                                                   "has at least ", kMinSyntheticVocabulary));
  }
  return text::Tokenizer::FromJson(SyntheticTokenizerJson(vocab_size), "", vocab_size);
}

}  // namespace

absl::StatusOr<std::shared_ptr<const engine::TokenConstraint>> JsonConstraint(const engine::ModelConfig& config,
                                                                              const std::string& model_dir) {
  const auto tokenizer = TokenizerOf(model_dir, config.vocab_size);
  if (!tokenizer.ok()) return tokenizer.status();
  const auto compiler = text::GrammarCompiler::Create(**tokenizer, config.eos_token_ids, config.vocab_size);
  if (!compiler.ok()) return compiler.status();
  return (*compiler)->Compile({.kind = text::GrammarKind::kJsonSchema, .text = kSchema, .choices = {}});
}

}  // namespace dunlin::tools::bench

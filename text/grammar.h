// SPDX-License-Identifier: Apache-2.0
// Grammars to masks over one model's tokens, by llguidance in the Rust library (text/rust/src/grammar). Which
// schemas, expressions and grammars are supported: docs/structured_output.md.
// Owner: the model. Thread rule: immutable; any number of threads at once. Compile takes up to seconds and tens of MiB:
// call it where nothing waits for it (server/models/grammar_lane.h).
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "engine/request/token_constraint.h"
#include "text/grammar_source.h"
#include "text/tokenizer.h"

struct dunlin_text_grammar_compiler;  // the C ABI's handle, text/rust/include/dunlin_text.h

namespace dunlin::text {

// Bounds of a GrammarSource.
inline constexpr size_t kMaxGrammarBytes = size_t{256} << 10;  // JSON Schema, Lark, GBNF
inline constexpr size_t kMaxRegexBytes = size_t{16} << 10;
inline constexpr size_t kMaxChoices = 1024;
inline constexpr size_t kMaxChoiceBytes = size_t{64} << 10;  // together
// Of a composed one: its text and those of its parts, each of which is bounded as above.
inline constexpr size_t kMaxComposedBytes = size_t{1} << 20;

// What the state of one output may grow by while it runs. Beyond it the states of a model's outputs share 64 MiB, or
// what LimitGrowth says, and one that would take more ends with RESOURCE_EXHAUSTED.
inline constexpr size_t kGrammarStateGrowth = size_t{256} << 10;

class GrammarCompiler {
 public:
  // Takes what it needs of the tokenizer: some 20 bytes for each byte of its tokens. eos_token_ids: where a text may
  // end, all of them are allowed. vocab_size: width of the model's logits; ids above the tokenizer's are never allowed.
  // Errors: INVALID_ARGUMENT (an id, vocab_size); FAILED_PRECONDITION (the bytes of single tokens are not known).
  static absl::StatusOr<std::unique_ptr<GrammarCompiler>> Create(const Tokenizer& tokenizer,
                                                                 std::span<const engine::TokenId> eos_token_ids,
                                                                 int32_t vocab_size);

  ~GrammarCompiler();
  GrammarCompiler(const GrammarCompiler&) = delete;
  GrammarCompiler& operator=(const GrammarCompiler&) = delete;

  // Requests of a TextWorker: first one that prepares it, with arguments as Create's, then one for each source that it
  // is to compile, and whether its reply says that it could. What it has compiled stays there: the reply proves that
  // the same work here ends. Errors: as Create and Compile.
  static absl::StatusOr<std::string> WorkerSetup(const Tokenizer& tokenizer,
                                                 std::span<const engine::TokenId> eos_token_ids, int32_t vocab_size);
  static absl::StatusOr<std::string> WorkerRequest(const GrammarSource& source);
  static absl::Status CheckReply(const GrammarSource& source, std::string_view reply);

  // The constraint may outlive the compiler. *bytes, unless null: an estimate of its memory. Errors: INVALID_ARGUMENT
  // (malformed, or no text matches); UNIMPLEMENTED (a part that is not supported, by name); RESOURCE_EXHAUSTED (a
  // bound). Messages complete the sentence "json_schema ..." and may quote the grammar; of a part they begin with
  // "in " and GrammarSource::of.
  absl::StatusOr<std::shared_ptr<const engine::TokenConstraint>> Compile(const GrammarSource& source,
                                                                         size_t* bytes = nullptr) const;
  // What the states of its grammars may grow by together, instead of 64 MiB.
  void LimitGrowth(size_t bytes);

 private:
  explicit GrammarCompiler(dunlin_text_grammar_compiler* handle) : handle_(handle) {}

  dunlin_text_grammar_compiler* handle_;  // owned, never null
};

}  // namespace dunlin::text

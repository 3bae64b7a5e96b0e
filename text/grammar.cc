// SPDX-License-Identifier: Apache-2.0
#include "text/grammar.h"

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "text/abi.h"

namespace dunlin::text {
namespace {

class GrammarState final : public engine::ConstraintState {
 public:
  // handle: null if it could not be made.
  explicit GrammarState(dunlin_text_grammar_state* handle) : handle_(handle) {}
  ~GrammarState() override { dunlin_text_grammar_state_free(handle_); }
  GrammarState(const GrammarState&) = delete;
  GrammarState& operator=(const GrammarState&) = delete;

  absl::Status FillMask(std::span<uint32_t> mask) override {
    dunlin_text_error error{};
    return text_abi::ToStatus(dunlin_text_grammar_fill_mask(handle_, mask.data(), mask.size(), &error), error);
  }

  absl::Status Accept(engine::TokenId token) override {
    dunlin_text_error error{};
    return text_abi::ToStatus(dunlin_text_grammar_accept(handle_, token, &error), error);
  }

  bool is_accepting() const override { return dunlin_text_grammar_is_accepting(handle_); }

  std::unique_ptr<engine::ConstraintState> Clone() const override {
    dunlin_text_grammar_state* state = nullptr;
    dunlin_text_grammar_state_clone(handle_, &state, nullptr);
    return std::make_unique<GrammarState>(state);
  }

 private:
  dunlin_text_grammar_state* const handle_;  // owned
};

class Grammar final : public engine::TokenConstraint {
 public:
  explicit Grammar(dunlin_text_grammar* handle) : handle_(handle) {}
  ~Grammar() override { dunlin_text_grammar_free(handle_); }
  Grammar(const Grammar&) = delete;
  Grammar& operator=(const Grammar&) = delete;

  std::unique_ptr<engine::ConstraintState> Start() const override {
    dunlin_text_grammar_state* state = nullptr;
    dunlin_text_grammar_state_new(handle_, &state, nullptr);
    return std::make_unique<GrammarState>(state);
  }

 private:
  dunlin_text_grammar* const handle_;  // owned, never null
};

// A source as the ABI takes it, without its parts. The source outlives it.
class FlatSource {
 public:
  explicit FlatSource(const GrammarSource& source) : source_(source), choices_(absl::StrJoin(source.choices, "")) {
    for (const std::string& choice : source.choices) sizes_.push_back(choice.size());
  }
  dunlin_text_grammar_source view() const {
    const std::string& text = source_.kind == GrammarKind::kChoice ? choices_ : source_.text;
    return {static_cast<int32_t>(source_.kind),
            text_abi::Data(text),
            text.size(),
            sizes_.data(),
            sizes_.size(),
            nullptr,
            0};
  }

 private:
  const GrammarSource& source_;
  std::string choices_;
  std::vector<size_t> sizes_;
};

// The same with its parts.
class WholeSource {
 public:
  explicit WholeSource(const GrammarSource& source) : whole_(source), parts_(source.parts.begin(), source.parts.end()) {
    for (const FlatSource& part : parts_) views_.push_back(part.view());
    view_ = whole_.view();
    view_.parts = views_.data();
    view_.num_parts = views_.size();
  }
  WholeSource(const WholeSource&) = delete;
  WholeSource& operator=(const WholeSource&) = delete;
  const dunlin_text_grammar_source* view() const { return &view_; }

 private:
  const FlatSource whole_;
  const std::vector<FlatSource> parts_;
  std::vector<dunlin_text_grammar_source> views_;
  dunlin_text_grammar_source view_{};
};

// An error of a part says which.
absl::Status Refused(const absl::Status& status, const GrammarSource& source, int64_t part) {
  if (part < 0 || source.parts[static_cast<size_t>(part)].of.empty()) return status;
  const std::string& of = source.parts[static_cast<size_t>(part)].of;
  return {status.code(), absl::StrCat("in ", of, " ", status.message())};
}

}  // namespace

absl::StatusOr<std::unique_ptr<GrammarCompiler>> GrammarCompiler::Create(const Tokenizer& tokenizer,
                                                                         std::span<const engine::TokenId> eos_token_ids,
                                                                         int32_t vocab_size) {
  dunlin_text_grammar_compiler* handle = nullptr;
  dunlin_text_error error{};
  const int32_t code = dunlin_text_grammar_compiler_new(tokenizer.handle(), eos_token_ids.data(), eos_token_ids.size(),
                                                        vocab_size, &handle, &error);
  if (code != 0) return text_abi::ToStatus(code, error);
  return std::unique_ptr<GrammarCompiler>(new GrammarCompiler(handle));
}

void GrammarCompiler::LimitGrowth(size_t bytes) {
  dunlin_text_grammar_limit_growth(handle_, bytes);
}

GrammarCompiler::~GrammarCompiler() {
  dunlin_text_grammar_compiler_free(handle_);
}

absl::StatusOr<std::string> GrammarCompiler::WorkerSetup(const Tokenizer& tokenizer,
                                                         std::span<const engine::TokenId> eos_token_ids,
                                                         int32_t vocab_size) {
  text_abi::Bytes request;
  dunlin_text_error error{};
  const int32_t code = dunlin_text_grammar_setup(tokenizer.handle(), eos_token_ids.data(), eos_token_ids.size(),
                                                 vocab_size, request.out(), &error);
  if (code != 0) return text_abi::ToStatus(code, error);
  return request.Take();
}

absl::StatusOr<std::string> GrammarCompiler::WorkerRequest(const GrammarSource& source) {
  const WholeSource whole(source);
  text_abi::Bytes request;
  int64_t refused_part = -1;
  dunlin_text_error error{};
  const int32_t code = dunlin_text_grammar_request(whole.view(), request.out(), &refused_part, &error);
  if (code != 0) return Refused(text_abi::ToStatus(code, error), source, refused_part);
  return request.Take();
}

absl::Status GrammarCompiler::CheckReply(const GrammarSource& source, std::string_view reply) {
  int64_t refused_part = -1;
  dunlin_text_error error{};
  const int32_t code = dunlin_text_grammar_check_reply(text_abi::Data(reply), reply.size(), &refused_part, &error);
  return code == 0 ? absl::OkStatus() : Refused(text_abi::ToStatus(code, error), source, refused_part);
}

absl::StatusOr<std::shared_ptr<const engine::TokenConstraint>> GrammarCompiler::Compile(const GrammarSource& source,
                                                                                        size_t* bytes) const {
  const WholeSource whole(source);
  dunlin_text_grammar* handle = nullptr;
  int64_t refused_part = -1;
  dunlin_text_error error{};
  const int32_t code = dunlin_text_grammar_compile(handle_, whole.view(), &handle, &refused_part, &error);
  if (code != 0) return Refused(text_abi::ToStatus(code, error), source, refused_part);
  if (bytes != nullptr) *bytes = dunlin_text_grammar_bytes(handle);
  return std::make_shared<Grammar>(handle);
}

}  // namespace dunlin::text

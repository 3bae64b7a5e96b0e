// SPDX-License-Identifier: Apache-2.0
#include "server/serving/chat/text_requests.h"

#include "absl/strings/str_cat.h"
#include "engine/base/string_view.h"
#include "engine/request/field_checks.h"
#include "server/serving/record/client_field.h"
#include "server/serving/record/errors.h"
#include "server/serving/resolve/key_limits.h"
#include "server/serving/resolve/resolve.h"
#include "server/serving/text/encode_text.h"

namespace dunlin::server {
namespace {

using C = ClientField;
using F = engine::RequestField;

constexpr int64_t kResponseBytes = 64;  // upper bound, of a response besides its ids

// The model with this name, which must have a tokenizer.
absl::StatusOr<ModelLease> FindModel(const ServingCore& core, const Principal& caller, const std::string& name,
                                     const FieldNames& names) {
  if (absl::Status s = CheckModelName(name, names); !s.ok()) return s;
  absl::StatusOr<ModelLease> model = LeaseFor(core, caller, name);
  if (!model.ok()) return model.status();
  if ((*model)->tokenizer == nullptr) return MakeError(Reason::kNoTokenizer, "the model has no tokenizer");
  return model;
}

absl::Status Refused(engine::Field field, const absl::Status& status, const FieldNames& names) {
  return InvalidField(engine::Violation::Of(field, std::string(engine::StdView(status.message())), ""), names);
}

// Bytes that an id takes in a response at most: a varint has 7 bits per byte.
int64_t BytesPerId(int64_t vocab_size) {
  int64_t bytes = 1;
  for (int64_t largest = vocab_size - 1; largest >= 128; largest /= 128) ++bytes;
  return bytes;
}

}  // namespace

absl::StatusOr<std::vector<engine::TokenId>> Tokenise(const ServingCore& core, const Principal& caller,
                                                      const std::string& model, const std::string& text,
                                                      const text::EncodeOptions& options, const FieldNames& names) {
  const absl::StatusOr<ModelLease> lease = FindModel(core, caller, model, names);
  if (!lease.ok()) return lease.status();
  if (const auto v = engine::CheckBytes(C::kPromptText, text.size(), 0, text::kMaxTextBytes)) {
    return InvalidField(*v, names);
  }
  const text::Tokenizer& tokenizer = *(*lease)->tokenizer;
  text::EncodeOptions bounded = options;
  bounded.max_tokens =
      static_cast<size_t>((core.limits().max_message_bytes - kResponseBytes) / BytesPerId(tokenizer.vocab_size()));
  absl::StatusOr<std::vector<engine::TokenId>> ids = EncodeText(core, tokenizer, text, bounded);
  if (absl::IsOutOfRange(ids.status())) {
    return InvalidField(engine::Violation::Of(
                            C::kPromptText, absl::StrCat("has more than ", bounded.max_tokens, " tokens"),
                            absl::StrCat(bounded.max_tokens, ", what fits into a response (limits.max_message_bytes)")),
                        names);
  }
  if (!ids.ok()) return Refused(C::kPromptText, ids.status(), names);
  return ids;
}

absl::StatusOr<std::string> Detokenise(const ServingCore& core, const Principal& caller, const std::string& model,
                                       std::span<const engine::TokenId> ids, bool keep_special_tokens,
                                       const FieldNames& names) {
  const absl::StatusOr<ModelLease> lease = FindModel(core, caller, model, names);
  if (!lease.ok()) return lease.status();
  const text::Tokenizer& tokenizer = *(*lease)->tokenizer;
  if (const auto v = engine::CheckCount(F::kPromptTokens, ids.size(), text::kMaxTokenIds)) {
    return InvalidField(*v, names);
  }
  const auto vocab_size = static_cast<int32_t>(tokenizer.vocab_size());
  if (const auto v = engine::CheckTokenIds(F::kPromptToken, ids, vocab_size)) return InvalidField(*v, names);
  absl::StatusOr<std::string> text = tokenizer.Decode(ids, !keep_special_tokens);
  if (!text.ok()) return Refused(F::kPromptTokens, text.status(), names);
  const int64_t limit = core.limits().max_message_bytes / 2;
  if (std::ssize(*text) <= limit) return text;
  return InvalidField(
      engine::Violation::Of(F::kPromptTokens, absl::StrCat("decode to a text of ", text->size(), " bytes"),
                            absl::StrCat(limit, " (half of limits.max_message_bytes)")),
      names);
}

absl::StatusOr<ChatPrompt> ApplyChatTemplate(const ServingCore& core, const Principal& caller, const std::string& model,
                                             const text::ChatInput& chat, const FieldNames& names) {
  const absl::StatusOr<ModelLease> lease = FindModel(core, caller, model, names);
  if (!lease.ok()) return lease.status();
  absl::StatusOr<ChatPrompt> prompt = MakeChatPrompt(core, **lease, chat, SIZE_MAX, names);
  if (!prompt.ok()) return prompt;
  // The text and up to five bytes for each id share a message.
  const int64_t bytes = std::ssize(prompt->text) + 5 * std::ssize(prompt->token_ids);
  if (bytes <= core.limits().max_message_bytes) return prompt;
  return InvalidField(
      engine::Violation::Of(C::kChat, absl::StrCat("makes a response of ", bytes, " bytes"),
                            absl::StrCat(core.limits().max_message_bytes, " (limits.max_message_bytes)")),
      names);
}

}  // namespace dunlin::server

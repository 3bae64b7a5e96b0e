// SPDX-License-Identifier: Apache-2.0
#include "server/serving/chat/chat_prompt.h"

#include <algorithm>
#include <ctime>
#include <string>
#include <string_view>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/base/string_view.h"
#include "server/serving/chat/check_chat.h"
#include "server/serving/chat/system_messages.h"
#include "server/serving/record/client_field.h"
#include "server/serving/record/errors.h"
#include "server/serving/text/encode_text.h"

namespace dunlin::server {
namespace {

using C = ClientField;

text::LocalTime Now() {
  const std::time_t seconds = std::time(nullptr);
  std::tm fields{};
  localtime_r(&seconds, &fields);
  return {.unix_seconds = seconds, .utc_offset_seconds = fields.tm_gmtoff};
}

absl::Status RaisedByTemplate(const absl::Status& status, const FieldNames& names) {
  return MakeError(Reason::kChatRefused, absl::StrCat(names[C::kChat], " ", status.message()));
}

// Rendering takes some tens of bytes for each byte of the chat, as tokenising does.
absl::StatusOr<text::RenderedChat> RenderWithinBudget(const ServingCore& core, const ServedModel& model,
                                                      const text::ChatInput& chat) {
  const size_t bytes = BytesOf(chat);
  if (bytes <= kUnbudgetedBytes) return model.chat_template->Render(*model.tokenizer, chat, Now());
  const TextBudget::Share share = core.text_budget()->Take(static_cast<int64_t>(bytes));
  core.text_pool()->NoteProgress();
  return model.chat_template->Render(*model.tokenizer, chat, Now());
}

absl::StatusOr<text::RenderedChat> RenderWithSystem(const ServingCore& core, const ServedModel& model,
                                                    const text::ChatInput& chat) {
  const bool moves = chat.moves_system_messages && model.system_places != SystemPlaces::kAnywhere;
  if (!moves) return RenderWithinBudget(core, model, chat);
  text::ChatInput moved = chat;
  moved.messages = WithSystemMoved(chat.messages, model.system_places);
  return RenderWithinBudget(core, model, moved);
}

}  // namespace

absl::Status CheckChats(const ServedModel& model) {
  if (model.tokenizer == nullptr)
    return MakeError(Reason::kNoTokenizer, "the model has no tokenizer; it takes token_ids only");
  if (model.chat_template != nullptr) return absl::OkStatus();
  return MakeError(Reason::kChatUnsupported, absl::StrCat("the model takes no chats: ", model.chat_refusal));
}

absl::StatusOr<ChatPrompt> MakeChatPrompt(const ServingCore& core, const ServedModel& model,
                                          const text::ChatInput& chat, size_t max_tokens, const FieldNames& names) {
  if (absl::Status s = CheckChats(model); !s.ok()) return s;
  if (const auto violation = CheckChat(chat)) return InvalidField(*violation, names);
  if (chat.parse_special_tokens && !model.chat_special_tokens) {
    return InvalidField(
        engine::Violation::Of(C::kChatParseSpecialTokens, "is true", "false (models[].chat_special_tokens)"), names);
  }
  absl::StatusOr<std::vector<PromptImage>> images = ReadChatImages(model, chat, names);
  if (!images.ok()) return images.status();
  absl::StatusOr<text::RenderedChat> rendered = RenderWithSystem(core, model, chat);
  if (absl::IsFailedPrecondition(rendered.status())) return RaisedByTemplate(rendered.status(), names);
  if (!rendered.ok()) return RefusedByText(rendered.status(), C::kChat, {}, names);
  absl::StatusOr<std::vector<engine::TokenId>> ids = EncodeChat(core, *model.tokenizer, *rendered, max_tokens);
  if (absl::IsOutOfRange(ids.status())) return ids.status();
  if (!ids.ok()) return RefusedByText(ids.status(), C::kChat, {}, names);
  if (!images->empty()) {
    if (absl::Status s = PlaceImages(*model.images, &*ids, &*images); !s.ok()) return s;
  }
  return ChatPrompt{std::move(rendered->text), *std::move(ids), *std::move(images)};
}

}  // namespace dunlin::server

// SPDX-License-Identifier: Apache-2.0
#include "server/serving/text/pair_tokens.h"

#include <algorithm>
#include <optional>
#include <span>
#include <string>

#include "absl/strings/str_cat.h"
#include "engine/base/string_view.h"
#include "server/serving/record/client_field.h"
#include "server/serving/record/errors.h"
#include "server/serving/text/encode_text.h"
#include "text/text_pair.h"

namespace dunlin::server {
namespace {

using C = ClientField;
using F = engine::RequestField;
using TokenIds = std::vector<engine::TokenId>;

// What a call's texts share.
struct Room {
  size_t tokens;  // of query and document together
  std::string limit;
};

// A text without special tokens around it. too_long: of one with more tokens than `room`, unless it may be truncated.
absl::StatusOr<TokenIds> TokensOf(const ServingCore& core, const ServedModel& model, const ClientEmbedRequest& client,
                                  const std::string& text, size_t room, bool truncate, engine::Violation too_long,
                                  bool* truncated) {
  const text::EncodeOptions options{.add_special_tokens = false, .max_tokens = room, .truncate = truncate};
  absl::StatusOr<TokenIds> ids = EncodeText(core, *model.tokenizer, text, options, truncated);
  if (ids.ok()) return ids;
  if (!absl::IsOutOfRange(ids.status())) {
    too_long.problem = std::string(engine::StdView(ids.status().message()));
    too_long.limit.clear();
  }
  return InvalidField(too_long, *client.field_names);
}

absl::Status AppendDocument(const ServingCore& core, const ServedModel& model, const ClientEmbedRequest& client,
                            const TokenIds& query, const Room& room, size_t index, engine::EncodeRequest* request,
                            std::vector<bool>* truncated) {
  const size_t left = client.truncate ? room.tokens : room.tokens - query.size();
  const auto most = static_cast<size_t>(client.rerank->max_tokens_per_doc.value_or(INT32_MAX));
  bool cut = false;
  const absl::StatusOr<TokenIds> document = TokensOf(
      core, model, client, std::get<std::string>(client.inputs[index]), std::min(left, most),
      client.truncate || most <= left,
      engine::Violation::Of(F::kInput, absl::StrCat("has, with the query and special tokens, more than ", room.limit),
                            "", {static_cast<int64_t>(index)}),
      &cut);
  if (!document.ok()) return document.status();
  const text::PairLengths kept = text::TruncatePair(query.size(), document->size(), room.tokens);
  cut = cut || kept.first < query.size() || kept.second < document->size();
  const std::span<const engine::TokenId> first(query.data(), kept.first);
  const std::span<const engine::TokenId> second(document->data(), kept.second);
  const size_t before = request->tokens.size();
  request->first_lengths.push_back(text::AppendPair(*model.pair_frame, first, second, &request->tokens));
  request->lengths.push_back(static_cast<int32_t>(request->tokens.size() - before));
  truncated->push_back(cut);
  return absl::OkStatus();
}

}  // namespace

absl::Status TokenisePairs(const ServingCore& core, const ServedModel& model, const ClientEmbedRequest& client,
                           engine::EncodeRequest* request, std::vector<bool>* truncated) {
  const auto limit = static_cast<size_t>(model.encoder->limits().max_input_tokens);
  const size_t special = model.pair_frame->size();
  const Room room{limit - std::min(limit, special), absl::StrCat(limit, " tokens (models[].max_context_tokens)")};
  bool cut = false;
  const absl::StatusOr<TokenIds> query = TokensOf(
      core, model, client, client.rerank->query, room.tokens, client.truncate,
      engine::Violation::Of(C::kQuery, absl::StrCat("has, with special tokens, more than ", room.limit), ""), &cut);
  if (!query.ok()) return query.status();
  for (size_t i = 0; i < client.inputs.size(); ++i) {
    absl::Status status = AppendDocument(core, model, client, *query, room, i, request, truncated);
    if (!status.ok()) return status;
    if (cut) truncated->back() = true;
    const int64_t most = model.encoder->limits().max_queued_tokens;
    if (static_cast<int64_t>(request->tokens.size()) > most) {
      return InvalidField(engine::Violation::Of(
                              F::kInputs, absl::StrCat("make, with the query before each, more than ", most, " tokens"),
                              absl::StrCat(most, " (scheduler.max_queued_tokens)")),
                          *client.field_names);
    }
  }
  return absl::OkStatus();
}

}  // namespace dunlin::server

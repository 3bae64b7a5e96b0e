// SPDX-License-Identifier: Apache-2.0
#include "server/fronts/dunlin_v1/tokenizer_service.h"

#include <span>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "server/fronts/dunlin_v1/chat_messages.h"
#include "server/fronts/dunlin_v1/field_names.h"
#include "server/grpc_calls/unary_text_call.h"
#include "server/serving/chat/text_requests.h"

namespace dunlin::server {
namespace {

absl::Status TokenizeWork(const ServingCore& core, const Principal& caller, const v1::TokenizeRequest& request,
                          v1::TokenizeResponse* response) {
  const text::EncodeOptions options{.add_special_tokens = request.add_special_tokens(),
                                    .parse_special = request.parse_special_tokens()};
  const absl::StatusOr<std::vector<engine::TokenId>> ids =
      Tokenise(core, caller, request.model(), request.text(), options, kTokenizerFieldNames);
  if (!ids.ok()) return ids.status();
  response->mutable_token_ids()->Assign(ids->begin(), ids->end());
  return absl::OkStatus();
}

absl::Status DetokenizeWork(const ServingCore& core, const Principal& caller, const v1::DetokenizeRequest& request,
                            v1::DetokenizeResponse* response) {
  const std::span<const engine::TokenId> ids(request.token_ids().data(), static_cast<size_t>(request.token_ids_size()));
  absl::StatusOr<std::string> text =
      Detokenise(core, caller, request.model(), ids, request.keep_special_tokens(), kTokenizerFieldNames);
  if (!text.ok()) return text.status();
  response->set_text(*std::move(text));
  return absl::OkStatus();
}

absl::Status ApplyChatTemplateWork(const ServingCore& core, const Principal& caller,
                                   const v1::ApplyChatTemplateRequest& request,
                                   v1::ApplyChatTemplateResponse* response) {
  v1::Chat chat = request.chat();
  absl::StatusOr<ChatPrompt> prompt =
      ApplyChatTemplate(core, caller, request.model(), ChatFromWire(&chat), kGenerateFieldNames);
  if (!prompt.ok()) return prompt.status();
  response->set_text(std::move(prompt->text));
  response->mutable_token_ids()->Assign(prompt->token_ids.begin(), prompt->token_ids.end());
  return absl::OkStatus();
}

}  // namespace

grpc::ServerUnaryReactor* TokenizerService::Tokenize(grpc::CallbackServerContext* context,
                                                     const grpc::ByteBuffer* request, grpc::ByteBuffer* response) {
  return UnaryTextCall<v1::TokenizeRequest, v1::TokenizeResponse>::Start(
      admission_, "/dunlin.v1.TokenizerService/Tokenize", context, *request, response, &TokenizeWork);
}

grpc::ServerUnaryReactor* TokenizerService::Detokenize(grpc::CallbackServerContext* context,
                                                       const grpc::ByteBuffer* request, grpc::ByteBuffer* response) {
  return UnaryTextCall<v1::DetokenizeRequest, v1::DetokenizeResponse>::Start(
      admission_, "/dunlin.v1.TokenizerService/Detokenize", context, *request, response, &DetokenizeWork);
}

grpc::ServerUnaryReactor* TokenizerService::ApplyChatTemplate(grpc::CallbackServerContext* context,
                                                              const grpc::ByteBuffer* request,
                                                              grpc::ByteBuffer* response) {
  return UnaryTextCall<v1::ApplyChatTemplateRequest, v1::ApplyChatTemplateResponse>::Start(
      admission_, "/dunlin.v1.TokenizerService/ApplyChatTemplate", context, *request, response, &ApplyChatTemplateWork);
}

}  // namespace dunlin::server

#include "server/grpc/tokenizer_service.h"

#include <span>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "engine/base/string_view.h"
#include "engine/text/tokenizer.h"
#include "server/convert/errors.h"
#include "server/convert/field_checks.h"
#include "server/grpc/unary_text_call.h"

namespace dunlin::server {
namespace {

absl::StatusOr<const engine::Tokenizer*> FindTokenizer(const Edge& edge, const std::string& name) {
  const ServedModel* model = edge.registry->Find(name);
  if (model == nullptr) return UnknownModel(name);
  if (model->tokenizer == nullptr) return MakeError(Reason::kNoTokenizer, "the model has no tokenizer");
  return model->tokenizer.get();
}

absl::Status TokenizeWork(const Edge& edge, const v1::TokenizeRequest& request, v1::TokenizeResponse* response) {
  const absl::StatusOr<const engine::Tokenizer*> tokenizer = FindTokenizer(edge, request.model());
  if (!tokenizer.ok()) return tokenizer.status();
  if (absl::Status s = CheckBytes("text", request.text().size(), 0, engine::kMaxTextBytes); !s.ok()) return s;
  const engine::EncodeOptions options{.add_special_tokens = request.add_special_tokens(),
                                      .parse_special = request.parse_special_tokens()};
  const absl::StatusOr<std::vector<int32_t>> ids = (*tokenizer)->Encode(request.text(), options);
  if (!ids.ok()) return InvalidField("text", engine::StdView(ids.status().message()), "");
  response->mutable_token_ids()->Assign(ids->begin(), ids->end());
  return absl::OkStatus();
}

absl::Status DetokenizeWork(const Edge& edge, const v1::DetokenizeRequest& request, v1::DetokenizeResponse* response) {
  const absl::StatusOr<const engine::Tokenizer*> tokenizer = FindTokenizer(edge, request.model());
  if (!tokenizer.ok()) return tokenizer.status();
  const auto& ids = request.token_ids();
  if (absl::Status s = CheckCount("token_ids", static_cast<size_t>(ids.size()), engine::kMaxTokenIds); !s.ok()) {
    return s;
  }
  const auto vocab_size = static_cast<int32_t>((*tokenizer)->vocab_size());
  for (int i = 0; i < ids.size(); ++i) {
    if (ids[i] >= 0 && ids[i] < vocab_size) continue;
    return CheckTokenId(absl::StrCat("token_ids[", i, "]"), ids[i], vocab_size);
  }
  const std::span<const int32_t> span(ids.data(), static_cast<size_t>(ids.size()));
  absl::StatusOr<std::string> text = (*tokenizer)->Decode(span, !request.keep_special_tokens());
  if (!text.ok()) return InvalidField("token_ids", engine::StdView(text.status().message()), "");
  if (text->size() > static_cast<size_t>(edge.limits.max_message_bytes) / 2) {
    return InvalidField("token_ids", absl::StrCat("give a text of ", text->size(), " bytes"),
                        absl::StrCat(edge.limits.max_message_bytes / 2, " (half of limits.max_message_bytes)"));
  }
  response->set_text(*std::move(text));
  return absl::OkStatus();
}

}  // namespace

grpc::ServerUnaryReactor* TokenizerService::Tokenize(grpc::CallbackServerContext* context,
                                                     const grpc::ByteBuffer* request, grpc::ByteBuffer* response) {
  return UnaryTextCall<v1::TokenizeRequest, v1::TokenizeResponse>::Start(edge_, context, *request, response,
                                                                         &TokenizeWork);
}

grpc::ServerUnaryReactor* TokenizerService::Detokenize(grpc::CallbackServerContext* context,
                                                       const grpc::ByteBuffer* request, grpc::ByteBuffer* response) {
  return UnaryTextCall<v1::DetokenizeRequest, v1::DetokenizeResponse>::Start(edge_, context, *request, response,
                                                                             &DetokenizeWork);
}

}  // namespace dunlin::server

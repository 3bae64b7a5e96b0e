// SPDX-License-Identifier: Apache-2.0
#include "server/http_calls/document_call.h"

#include <memory>
#include <optional>
#include <utility>

#include "server/transport/http/http_exchange.h"

namespace dunlin::server {
namespace {

using AnswerFunction = std::function<void(const HttpRequest&, const std::string&, Respond)>;

class DocumentCall final : public HttpHandler {
 public:
  explicit DocumentCall(std::shared_ptr<const AnswerFunction> answer) : answer_(std::move(answer)) {}

  std::optional<HttpReply> Admit(const HttpRequest& /*request*/, size_t /*body_bytes*/) override {
    return std::nullopt;
  }
  void Start(std::shared_ptr<HttpExchange> exchange, std::string body) override {
    const HttpRequest& request = exchange->request();
    (*answer_)(request, body,
               [exchange = std::move(exchange)](HttpReply reply) { exchange->Respond(std::move(reply)); });
  }
  void OnWriteDone(bool /*ok*/) override {}
  void OnCancel() override {}
  void OnDone() override {}

 private:
  const std::shared_ptr<const AnswerFunction> answer_;
};

}  // namespace

HttpRoute DocumentRoute(const char* path, std::function<HttpReply(const HttpRequest&, const std::string&)> answer) {
  return DeferredDocumentRoute(
      path, [answer = std::move(answer)](const HttpRequest& request, const std::string& body, const Respond& respond) {
        respond(answer(request, body));
      });
}

HttpRoute DeferredDocumentRoute(const char* path, AnswerFunction answer) {
  HttpRoute route{"POST", path};
  route.open = [shared = std::make_shared<const AnswerFunction>(std::move(answer))] {
    return std::make_shared<DocumentCall>(shared);
  };
  route.max_body_bytes = kDocumentBodyBytesMax;
  return route;
}

}  // namespace dunlin::server

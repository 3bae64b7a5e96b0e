// SPDX-License-Identifier: Apache-2.0
// Bodies of HTTP calls: OpenAI's, Anthropic's, Cohere's and Ollama's APIs, and KServe's in JSON with binary tensors
// behind it.
#include <memory>
#include <string>

#include "server/fronts/kserve/http_translators.h"
#include "server/fronts/ollama/error_body.h"
#include "server/fronts/ollama/generation_translator.h"
#include "server/fronts/ollama/ollama_routes.h"
#include "server/fronts/ollama/vectors_translator.h"
#include "server/fronts/openai/anthropic_messages.h"
#include "server/fronts/openai/chat_completions.h"
#include "server/fronts/openai/completions.h"
#include "server/fronts/openai/embeddings.h"
#include "server/fronts/openai/rerank.h"
#include "server/fronts/openai/responses.h"
#include "server/fronts/openai/text_routes.h"
#include "tests/fuzz/input_bytes.h"
#include "tests/fuzz/planned_calls.h"

namespace dunlin::fuzz {
namespace {

server::ResponseFacts Facts(bool strict) {
  return {.created = 1'700'000'000, .version = "0", .cpu_variant = "portable", .strict = strict};
}

template <typename Translator>
void Generate(Translator&& translator, std::string_view body) {
  server::ClientRequest request;
  const absl::Status read = translator.Read(body, &request);
  if (read.ok()) (void)translator.TakeFurtherPrompts();
  const absl::Status status = Plan(read, std::move(request));
  if (!status.ok()) CheckErrorBody(translator.ErrorBody(status));
}

template <typename Translator>
void Embed(Translator&& translator, std::string_view body) {
  server::ClientEmbedRequest request;
  const absl::Status read = translator.Read(body, &request);
  if (read.ok() && request.loads_only) return CheckErrorBody(translator.LoadedDocument());
  const absl::Status status = Plan(read, std::move(request));
  if (!status.ok()) CheckErrorBody(translator.ErrorBody(status));
}

void Answer(const server::TextWork& work, std::string_view body) {
  server::IgnoredNames ignored;
  const auto document = work.document(Core(), server::Principal(), body, &ignored);
  CheckErrorBody(document.ok() ? *document : work.error_body(document.status()));
}

}  // namespace

// Input: the route (1 byte; the upper half is strict), the body.
int FuzzOpenAi(const uint8_t* data, size_t size) {
  InputBytes input(data, size);
  const uint8_t route = input.Byte();
  const std::string_view body = input.rest();
  const server::ResponseFacts facts = Facts(route >= 128);
  switch (route % 8) {
    case 0:
    case 1:
      Generate(server::ChatCompletionsTranslator(facts), body);
      break;
    case 2:
      Generate(server::CompletionsTranslator(facts), body);
      break;
    case 3:
      Generate(server::ResponsesTranslator(facts), body);
      break;
    case 4:
      Embed(server::EmbeddingsTranslator(facts), body);
      break;
    case 5:
      Embed(server::RerankTranslator(facts), body);
      break;
    case 6:
      Embed(server::RerankTranslator(facts, server::RerankApi::kCohereV2), body);
      break;
    default:
      Answer(body.size() % 2 == 0 ? server::kTokenizeWork : server::kDetokenizeWork, body);
  }
  return 0;
}

// Input: the route and whether it is strict (1 byte), the body.
int FuzzAnthropic(const uint8_t* data, size_t size) {
  InputBytes input(data, size);
  const uint8_t route = input.Byte();
  if (route % 4 == 3) {
    Answer(server::kCountTokensWork, input.rest());
  } else {
    Generate(server::AnthropicTranslator(Facts(route >= 128)), input.rest());
  }
  return 0;
}

// Input: the route (1 byte; the upper half is strict), the body.
int FuzzOllama(const uint8_t* data, size_t size) {
  InputBytes input(data, size);
  const uint8_t route = input.Byte();
  const std::string_view body = input.rest();
  const server::ollama::CallFacts facts{.response = Facts(route >= 128), .created_at = "now"};
  const auto generate = [&](server::ollama::GenerationApi api) {
    server::ollama::GenerationTranslator translator(api, facts);
    Generate(translator, body);
    CheckErrorBody(translator.stream_form().idle_text);
  };
  switch (route % 8) {
    case 0:
    case 1:
    case 2:
      generate(server::ollama::GenerationApi::kChat);
      break;
    case 3:
    case 4:
      generate(server::ollama::GenerationApi::kGenerate);
      break;
    case 5:
      Embed(server::ollama::VectorsTranslator(server::ollama::VectorsApi::kEmbed, facts), body);
      break;
    case 6:
      Embed(server::ollama::VectorsTranslator(server::ollama::VectorsApi::kEmbeddings, facts), body);
      break;
    default:
      const auto naming = server::ollama::ReadNaming(body);
      if (!naming.ok()) CheckErrorBody(server::ollama::ErrorBody(naming.status()));
  }
  return 0;
}

// Input: the route (1 byte), how many bytes of the body are JSON (2 bytes, 0: all), the body.
int FuzzKserveJson(const uint8_t* data, size_t size) {
  InputBytes input(data, size);
  const uint8_t route = input.Byte();
  auto facts = std::make_shared<server::kserve::HttpCallFacts>();
  facts->action = static_cast<server::kserve::HttpAction>(route % 3);
  const size_t json_bytes = input.Byte() + 256U * input.Byte();
  if (json_bytes != 0) facts->json_bytes = json_bytes;
  facts->model = route >= 128 ? "encoder" : "tiny";
  if (route >= 128) {
    facts->action = server::kserve::HttpAction::kInfer;
    Embed(server::kserve::HttpEmbedTranslator(facts), input.rest());
  } else {
    Generate(server::kserve::HttpGenerateTranslator(facts), input.rest());
  }
  bool set = false;
  (void)server::kserve::ReadRepositoryBody(input.rest(), "ready", &set);
  return 0;
}

}  // namespace dunlin::fuzz

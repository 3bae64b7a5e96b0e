// SPDX-License-Identifier: Apache-2.0
// `dunlin embed`: sends texts to a server and prints their embeddings.
#include <chrono>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "dunlin/v1/embedding.grpc.pb.h"
#include "tools/cli/client_error.h"
#include "tools/cli/client_options.h"
#include "tools/cli/command.h"
#include "tools/cli/execution_name.h"
#include "tools/cli/execution_options.h"

namespace dunlin::cli {
namespace {

using Json = nlohmann::ordered_json;

struct EmbedOptions {
  ServerAddress server;
  std::string model;
  ExecutionWords execution;
  std::string pooling = "unspecified";
  std::optional<bool> normalize;
  std::optional<int32_t> dimensions;
  bool truncate = false;
  std::vector<int32_t> token_ids;
  std::string request_id;
  int64_t timeout_ms = 0;
  bool json = false;
  std::vector<std::string> texts;
};

v1::EmbedRequest EmbedRequestOf(const EmbedOptions& options) {
  v1::EmbedRequest request;
  request.set_model(options.model);
  for (const std::string& text : options.texts) request.add_inputs()->set_text(text);
  if (!options.token_ids.empty()) {
    auto* ids = request.add_inputs()->mutable_token_ids()->mutable_ids();
    ids->Add(options.token_ids.begin(), options.token_ids.end());
  }
  v1::Pooling pooling = v1::POOLING_UNSPECIFIED;
  v1::Pooling_Parse(absl::StrCat("POOLING_", absl::AsciiStrToUpper(options.pooling)), &pooling);
  request.set_pooling(pooling);
  if (options.normalize) request.set_normalize(*options.normalize);
  if (options.dimensions) request.set_dimensions(*options.dimensions);
  request.set_truncate(options.truncate);
  *request.mutable_execution() = ExecutionNamed(options.execution);
  request.set_request_id(options.request_id);
  return request;
}

Json ToJson(const v1::EmbedResponse& response) {
  Json embeddings = Json::array();
  for (const v1::Embedding& embedding : response.embeddings()) {
    embeddings.push_back({{"values", std::vector<float>(embedding.values().begin(), embedding.values().end())},
                          {"tokens", embedding.tokens()},
                          {"truncated", embedding.truncated()}});
  }
  const std::string pooling = v1::Pooling_Name(response.pooling());
  return {{"embeddings", embeddings},
          {"execution", ExecutionJson(response.execution())},
          {"pooling", absl::AsciiStrToLower(pooling.substr(sizeof("POOLING_") - 1))},
          {"normalized", response.normalized()},
          {"prompt_tokens", response.usage().prompt_tokens()},
          {"queue_ms", response.timings().queue_ms()},
          {"total_ms", response.timings().total_ms()},
          {"request_id", response.request_id()}};
}

// One vector per line.
void PrintVectors(const v1::EmbedResponse& response) {
  for (const v1::Embedding& embedding : response.embeddings()) {
    const char* space = "";
    for (const float value : embedding.values()) {
      std::cout << space << value;
      space = " ";
    }
    std::cout << "\n";
  }
}

int RunEmbed(const EmbedOptions& options) {
  if (options.texts.empty() && options.token_ids.empty()) {
    std::cerr << "give texts or --token-ids\n";
    return kExitUsage;
  }
  const auto channel = OpenChannel(options.server);
  if (channel == nullptr) return kExitUsage;
  const auto stub = v1::EmbeddingService::NewStub(channel);
  grpc::ClientContext context;
  if (options.timeout_ms > 0) {
    context.set_deadline(std::chrono::system_clock::now() + std::chrono::milliseconds(options.timeout_ms));
  }
  v1::EmbedResponse response;
  const grpc::Status status = stub->Embed(&context, EmbedRequestOf(options), &response);
  if (!status.ok()) {
    if (options.json) {
      std::cout << ErrorJson(status).dump() << "\n";
    } else {
      std::cerr << ErrorLine(status) << "\n";
    }
    return kExitFailed;
  }
  if (options.json) {
    std::cout << ToJson(response).dump() << "\n";
  } else {
    PrintVectors(response);
  }
  return kExitOk;
}

}  // namespace

std::function<int()> SetUpEmbed(CLI::App* subcommand) {
  auto options = std::make_shared<EmbedOptions>();
  AddServerOptions(subcommand, &options->server);
  subcommand->add_option("--model", options->model, "Name of a served encoder")->required();
  AddExecutionOptions(subcommand, &options->execution);
  subcommand->add_option("--pooling", options->pooling, "How hidden states become one vector; default: the model's own")
      ->check(CLI::IsMember({"mean", "cls", "last"}));
  // Two flags: CLI11 would set a single flag on an optional to false when neither form is given.
  CLI::Option* normalize = subcommand->add_flag_callback(
      "--normalize", [options] { options->normalize = true; }, "Scale vectors to length 1; default: the model's own");
  subcommand
      ->add_flag_callback(
          "--no-normalize", [options] { options->normalize = false; }, "Return vectors as pooled")
      ->excludes(normalize);
  subcommand->add_option("--dimensions", options->dimensions, "Keep only the first N dimensions");
  subcommand->add_flag("--truncate", options->truncate, "Truncate texts that are too long instead of refusing them");
  subcommand->add_option("--token-ids", options->token_ids, "An additional input as token ids: 1,2,3")->delimiter(',');
  subcommand->add_option("--request-id", options->request_id, "Request id, echoed in the response and the logs");
  subcommand->add_option("--timeout-ms", options->timeout_ms, "Deadline of the call; 0: none");
  subcommand->add_flag("--json", options->json, "Print one JSON object instead of one line per vector");
  subcommand->add_option("texts", options->texts, "The texts to embed");
  return [options] { return RunEmbed(*options); };
}

}  // namespace dunlin::cli

// SPDX-License-Identifier: Apache-2.0
#include "tests/integration/serving/served_edge.h"

#include <google/protobuf/util/json_util.h>
#include <grpcpp/create_channel.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "server/models/loader.h"
#include "tests/server/transport/http/raw_client.h"

namespace dunlin::server {
namespace {

// The body of "Transfer-Encoding: chunked".
std::string Unchunked(std::string_view chunks) {
  std::string body;
  while (!chunks.empty()) {
    const size_t line = chunks.find("\r\n");
    uint64_t size = 0;
    if (!absl::SimpleHexAtoi(absl::string_view(chunks.data(), line), &size) || size == 0) break;
    body.append(chunks.substr(line + 2, size));
    chunks.remove_prefix(line + 2 + size + 2);
  }
  return body;
}

}  // namespace

std::vector<Json> HttpAnswer::events() const {
  std::vector<Json> found;
  for (const absl::string_view line : absl::StrSplit(body, '\n')) {
    if (line.substr(0, 7) == "data: {") found.push_back(Json::parse(line.substr(6)));
  }
  return found;
}

ServedEdge& ServedEdge::Get() {
  static ServedEdge edge;
  return edge;
}

ServedEdge::ServedEdge() {
  std::string error;
  device_ = kernels::OpenDevice(kernels::DeviceKind::kCpu, {2, ""}, &error);
  EXPECT_NE(device_, nullptr) << error;
  Load("demo", "models/demo", {engine::Precision::kBf16, engine::Precision::kFp32});
  Load("tiny", "tests/golden/models/llama_gqa", {engine::Precision::kFp32});
  Load("encoder", "tests/golden/encoders/bert_sentence", {engine::Precision::kFp32});
  Load("reranker", "tests/golden/encoders/xlmr_rerank", {engine::Precision::kFp32});
  Load("bert-reranker", "tests/golden/encoders/bert_rerank", {engine::Precision::kFp32});
  Load("modernbert-reranker", "tests/golden/encoders/modernbert_mean_rerank", {engine::Precision::kFp32});
  Load("vision", "tests/golden/image_encoders/mistral3_vision", {engine::Precision::kFp32});
  Load("qwen-vision", "tests/golden/image_encoders/qwen35_vision", {engine::Precision::kFp32});
  Load("qwen3-embedding", "tests/golden/encoders/qwen3_embedding", {engine::Precision::kFp32});
  EdgeOptions options;
  options.http.emplace();
  options.http->address = "127.0.0.1:0";
  options.http->sources = {[] { return std::string(); }, [] { return std::string(); }, [] { return std::string(); }};
  options.version = "1.2.3";
  options.cpu_variant = "some";
  const absl::StatusOr<int> port = edge_.Start("127.0.0.1:0", Limits(), &models_, nullptr, options);
  EXPECT_TRUE(port.ok()) << port.status();
  edge_.SetServing(true);
  channel_ = grpc::CreateChannel(absl::StrCat("127.0.0.1:", port.value_or(0)), grpc::InsecureChannelCredentials());
}

void ServedEdge::Load(const std::string& name, const std::string& path,
                      const std::vector<engine::Precision>& precisions) {
  ModelSettings settings;
  settings.name = name;
  settings.source.path = absl::StrCat(DUNLIN_SOURCE_DIR "/", path);
  settings.source.precisions = precisions;
  settings.engine.kv_memory_bytes = size_t{16} << 20;
  settings.images = {.max_images = 4, .max_pixels = 1 << 20, .memory_bytes = size_t{1} << 20};
  settings.tool_parser = settings.reasoning_parser = "auto";
  const std::atomic<bool> stop{false};
  auto model = LoadModel(settings, device_.get(), nullptr, stop);
  ASSERT_TRUE(model.ok()) << model.status();
  ASSERT_TRUE(models_.Add(*std::move(model)).ok());
}

HttpAnswer ServedEdge::Send(const std::string& bytes) const {
  RawClient client(http_address());
  client.Send(bytes);
  const std::string all = client.ReadAll();
  HttpAnswer answer;
  const size_t end = all.find("\r\n\r\n");
  if (end == std::string::npos) return answer;
  answer.head = all.substr(0, end + 4);
  answer.body = all.substr(end + 4);
  EXPECT_TRUE(absl::SimpleAtoi(all.substr(9, 3), &answer.status)) << answer.head;
  if (answer.head.find("Transfer-Encoding: chunked") != std::string::npos) answer.body = Unchunked(answer.body);
  return answer;
}

HttpAnswer ServedEdge::Post(const std::string& path, const std::string& body) const {
  return Send(absl::StrCat("POST ", path, " HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Length: ",
                           body.size(), "\r\n\r\n", body));
}

HttpAnswer ServedEdge::Fetch(const std::string& path) const {
  return Send(absl::StrCat("GET ", path, " HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"));
}

Reply ServedEdge::Generate(const std::string& request) const {
  v1::GenerateRequest message;
  EXPECT_TRUE(google::protobuf::util::JsonStringToMessage(request, &message).ok()) << request;
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(30));
  const auto reader = v1::GenerationService::NewStub(channel_)->Generate(&context, message);
  Reply reply;
  ReadAll(reader.get(), &context, &reply);
  return reply;
}

}  // namespace dunlin::server

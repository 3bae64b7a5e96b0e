// SPDX-License-Identifier: Apache-2.0
// The routes under /v2 of an Edge: documents, infer with JSON and with binary tensors, generate, streams, errors.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "tests/server/fronts/dunlin_v1/edge_server.h"
#include "tests/server/transport/http/raw_client.h"

namespace dunlin::server::kserve {
namespace {

using nlohmann::json;
using testing::HasSubstr;

struct HttpAnswer {
  int status = 0;
  std::string head;
  std::string body;
  json document() const { return json::parse(body, nullptr, false); }
};

class KserveHttp : public testing::Test {
 protected:
  static EdgeServerOptions Options(bool kserve, bool serving) {
    EdgeServerOptions options;
    options.serving = serving;
    options.server.fronts.Set("protocols.kserve", kserve ? "true" : "false");
    options.server.version = "1.2.3";
    options.server.http.emplace();
    options.server.http->address = "127.0.0.1:0";
    options.server.http->sources = {[] { return std::string(); }, [] { return std::string(); },
                                    [] { return std::string(); }};
    return options;
  }
  static HttpAnswer Call(EdgeServer* edge, const std::string& method, const std::string& path,
                         const std::string& body = "", const std::string& headers = "") {
    RawClient client(edge->server().http_address());
    client.Send(absl::StrCat(method, " ", path, " HTTP/1.1\r\nConnection: close\r\nContent-Length: ", body.size(),
                             "\r\n", headers, "\r\n", body));
    const std::string all = client.ReadAll();
    const size_t end = all.find("\r\n\r\n");
    HttpAnswer answer;
    if (end == all.npos) return answer;
    answer.head = all.substr(0, end + 2);
    answer.body = all.substr(end + 4);
    answer.status = std::stoi(all.substr(std::strlen("HTTP/1.1 ")));
    return answer;
  }
  HttpAnswer Get(const std::string& path) { return Call(&edge_, "GET", path); }
  HttpAnswer Post(const std::string& path, const std::string& body, const std::string& headers = "") {
    return Call(&edge_, "POST", path, body, headers);
  }

  EdgeServer edge_{Options(true, true)};
};

std::string JsonLength(size_t bytes) {
  return absl::StrCat("Inference-Header-Content-Length: ", bytes, "\r\n");
}

TEST_F(KserveHttp, TellsOfTheServerAndItsModels) {
  EXPECT_EQ(Get("/v2/health/live").status, 200);
  EXPECT_EQ(Get("/v2/health/ready").status, 200);
  EXPECT_EQ(Get("/v2").document()["version"], "1.2.3");
  EXPECT_EQ(Get("/v2/models/tiny/ready").status, 200);
  EXPECT_EQ(Get("/v2/models/tiny/versions/1/ready").status, 200);
  EXPECT_EQ(Get("/v2/models/tiny/versions/9/ready").status, 400);
  EXPECT_EQ(Get("/v2/models/nobody/ready").status, 400);
  const json metadata = Get("/v2/models/tiny/versions/1").document();
  EXPECT_EQ(metadata["inputs"][0], (json{{"name", "text_input"}, {"datatype", "BYTES"}, {"shape", {1}}}));
  const json config = Get("/v2/models/tiny/config").document();
  EXPECT_EQ(config["model_transaction_policy"]["decoupled"], true);
  EXPECT_EQ(config["input"][0]["data_type"], "TYPE_STRING");
  std::vector<std::string> names;
  for (const json& model : Call(&edge_, "POST", "/v2/repository/index").document())
    names.push_back(model["name"].get<std::string>());
  EXPECT_THAT(names, testing::UnorderedElementsAre("tiny", "bare", "encoder"));
}

TEST_F(KserveHttp, TakesRequestsToTheRepository) {
  const auto post = [this](const std::string& path, const std::string& body) {
    return Post("/v2/repository/" + path, body);
  };
  EXPECT_EQ(post("index", R"({"ready": true})").document().size(), 3);
  EXPECT_EQ(post("index", R"({"model": "tiny"})").status, 400);
  EXPECT_EQ(post("index", "[]").status, 400);
  for (const char* body : {"", "{}", R"({"parameters": {}})"}) {
    EXPECT_EQ(post("models/tiny/load", body).status, 200) << body;
    const HttpAnswer unload = post("models/tiny/unload", body);
    EXPECT_EQ(unload.status, 501) << body;
    EXPECT_THAT(unload.body, HasSubstr("models[]"));
  }
  EXPECT_EQ(post("models/tiny/load", R"({"parameters": {"config": "{}"}})").status, 501);
  EXPECT_EQ(post("models/tiny/load", R"({"parameters": 7})").status, 400);
  EXPECT_EQ(post("models/nobody/load", "").status, 501);
  EXPECT_EQ(post("models/tiny/reload", "").status, 404);
  EXPECT_EQ(Get("/v2/models/tiny/ready").status, 200);
}

TEST_F(KserveHttp, RefusesBodiesInAnotherCoding) {
  const HttpAnswer answer = Post("/v2/models/tiny/infer", "{}", "Content-Encoding: gzip\r\n");
  EXPECT_EQ(answer.status, 415);
  EXPECT_THAT(answer.body, HasSubstr("Content-Encoding"));
}

TEST_F(KserveHttp, InfersWithJson) {
  const HttpAnswer answer = Post("/v2/models/tiny/infer", R"({"id": "7", "inputs": [
      {"name": "text_input", "datatype": "BYTES", "shape": [1], "data": ["abc"]},
      {"name": "exclude_input_in_output", "datatype": "BOOL", "shape": [1], "data": [true]},
      {"name": "max_tokens", "datatype": "INT32", "shape": [1, 1], "data": [[3]]}],
      "parameters": {"temperature": 0, "return_num_output_tokens": true}})");
  ASSERT_EQ(answer.status, 200) << answer.body;
  EXPECT_THAT(answer.head, HasSubstr("Content-Type: application/json\r\n"));
  const json document = answer.document();
  EXPECT_EQ(document["id"], "7");
  EXPECT_EQ(document["model_name"], "tiny");
  EXPECT_EQ(document["parameters"]["precision"], "fp32");
  EXPECT_EQ(document["outputs"][0],
            (json{{"name", "text_output"}, {"datatype", "BYTES"}, {"shape", {1}}, {"data", {"abc"}}}));
  EXPECT_EQ(document["outputs"][1]["data"], json::array({3}));
}

TEST_F(KserveHttp, InfersWithBinaryTensors) {
  const std::string head = R"({"inputs": [
      {"name": "text_input", "datatype": "BYTES", "shape": [1], "parameters": {"binary_data_size": 7}},
      {"name": "exclude_input_in_output", "datatype": "BOOL", "shape": [1], "parameters": {"binary_data_size": 1}}],
      "outputs": [{"name": "text_output", "parameters": {"binary_data": true}}, {"name": "num_output_tokens"}],
      "parameters": {"temperature": 0, "max_tokens": 3}})";
  const std::string text("\3\0\0\0abc", 7);
  const HttpAnswer answer = Post("/v2/models/tiny/infer", head + text + "\1", JsonLength(head.size()));
  ASSERT_EQ(answer.status, 200) << answer.body;
  EXPECT_THAT(answer.head, HasSubstr("Content-Type: application/octet-stream\r\n"));
  ASSERT_GT(answer.body.size(), text.size());
  const size_t json_bytes = answer.body.size() - text.size();
  EXPECT_THAT(answer.head, HasSubstr(JsonLength(json_bytes)));
  EXPECT_EQ(answer.body.substr(json_bytes), text);
  const json document = json::parse(answer.body.substr(0, json_bytes), nullptr, false);
  EXPECT_EQ(document["outputs"][0]["parameters"]["binary_data_size"], 7);
  EXPECT_FALSE(document["outputs"][0].contains("data"));
  EXPECT_EQ(document["outputs"][1]["data"], json::array({3}));
}

TEST_F(KserveHttp, EmbedsAsFp32) {
  const std::string body = R"({"inputs": [{"name": "text_input", "datatype": "BYTES", "shape": [2],
                                           "data": ["a dunlin", "a curlew"]}])";
  const json output = Post("/v2/models/encoder/infer", body + "}").document()["outputs"][0];
  EXPECT_EQ(output["name"], "embedding");
  EXPECT_EQ(output["datatype"], "FP32");
  const size_t dimensions = output["shape"][1];
  ASSERT_EQ(output["data"].size(), 2 * dimensions);
  const HttpAnswer binary = Post("/v2/models/encoder/infer", body + R"(, "parameters": {"binary_data_output": true}})");
  ASSERT_GT(binary.body.size(), 2 * dimensions * sizeof(float)) << binary.body;
  float first = 0.0F;
  std::memcpy(&first, &binary.body[binary.body.size() - 2 * dimensions * sizeof(float)], sizeof(first));
  EXPECT_EQ(first, output["data"][0].get<float>());
}

TEST_F(KserveHttp, Generates) {
  const HttpAnswer answer = Post("/v2/models/tiny/generate", R"({"id": "g", "text_input": "abc",
      "exclude_input_in_output": true, "parameters": {"max_tokens": 3, "temperature": "0", "stop": ["x"]}})");
  ASSERT_EQ(answer.status, 200) << answer.body;
  EXPECT_EQ(answer.document(),
            (json{{"id", "g"}, {"model_name", "tiny"}, {"model_version", "1"}, {"text_output", "abc"}}));
  const HttpAnswer prepended = Post("/v2/models/tiny/versions/1/generate", R"({"text_input": "abc", "max_tokens": 3})");
  EXPECT_EQ(prepended.document()["text_output"], "abcabc") << prepended.body;
}

TEST_F(KserveHttp, StreamsEvents) {
  const HttpAnswer answer = Post("/v2/models/tiny/generate_stream", R"({"text_input": "abc", "max_tokens": 6})");
  EXPECT_EQ(answer.status, 200) << answer.body;
  EXPECT_THAT(answer.head, HasSubstr("text/event-stream"));
  std::string text;
  for (const std::string& line : std::vector<std::string>(absl::StrSplit(answer.body, '\n'))) {
    if (line.rfind("data: ", 0) == 0)
      text += json::parse(line.substr(6), nullptr, false)["text_output"].get<std::string>();
  }
  EXPECT_EQ(text, "abcabc") << answer.body;
}

TEST_F(KserveHttp, CountsItsCalls) {
  Post("/v2/models/tiny/generate", R"({"text_input": "abc", "max_tokens": 3})");
  edge_.observer().WaitFor(1);
  const auto count = [this](const std::string& path) -> json {
    const json document = Get(path).document();
    for (const json& model : document["model_stats"]) {
      // Counts of 0 are left out.
      if (model["name"] == "tiny") return model.value(json::json_pointer("/inference_stats/success/count"), json(0));
    }
    return nullptr;
  };
  EXPECT_TRUE(Eventually([&] { return count("/v2/models/tiny/stats") == 1; }));
  EXPECT_EQ(count("/v2/models/stats"), 1);
}

TEST_F(KserveHttp, RefusesInItsWords) {
  struct Case {
    const char* path;
    std::string body;
    std::string headers;
    int status;
    const char* message;
  };
  const std::string text = R"("text_input": "abc")";
  const std::vector<Case> cases = {
      {"/v2/models/nobody/infer", "{}", "", 404, "nobody"},
      {"/v2/models/tiny/versions/9/generate", "{" + text + "}", "", 404, "versions/9"},
      {"/v2/models/tiny/train", "{}", "", 404, "/v2/models/{model}/infer"},
      {"/v2/models/tiny/infer", "{", "", 400, "body is not a JSON object"},
      {"/v2/models/tiny/infer", R"({"id": "a", "id": "a"})", "", 400, "id appears twice"},
      {"/v2/models/encoder/infer", R"({"inputs": [{"name": "a", "name": "b"}]})", "", 400,
       "inputs[0].name appears twice"},
      {"/v2/models/tiny/generate", "{" + text + R"(, "max_tokens": 1, "max_tokens": 9})", "", 400,
       "max_tokens appears twice"},
      {"/v2/models/tiny/generate_stream", "{" + text + R"(, "parameters": {"top_p": 1, "top_p": 0.5}})", "", 400,
       "parameters.top_p appears twice"},
      {"/v2/repository/index", R"({"ready": true, "ready": false})", "", 400, "ready appears twice"},
      {"/v2/repository/models/tiny/load", R"({"parameters": {"a": "", "a": ""}})", "", 400,
       "parameters.a appears twice"},
      {"/v2/models/tiny/infer", "{}", JsonLength(9), 400, "Inference-Header-Content-Length is 9"},
      {"/v2/models/tiny/infer", "{}", "Inference-Header-Content-Length: x\r\n", 400, "is not a number of bytes"},
      {"/v2/models/tiny/generate", "{}", JsonLength(2), 400, "Inference-Header-Content-Length is given"},
      {"/v2/models/tiny/generate", "{" + text + R"(, "top_p": 7})", "", 400, "top_p"},
      {"/v2/models/tiny/generate", "{" + text + R"(, "stream": true})", "", 400, "stream"},
      {"/v2/models/tiny/generate", "{" + text + R"(, "colour": 1})", "", 400, "colour is not a field"},
      {"/v2/models/tiny/generate_stream", "{" + text + R"(, "top_p": 7})", "", 400, "top_p"},
      {"/v2/models/encoder/infer", R"({"parameters": {"max_tokens": 1}})", "", 400, "max_tokens"},
  };
  for (const Case& one : cases) {
    const HttpAnswer answer = Post(one.path, one.body, one.headers);
    EXPECT_EQ(answer.status, one.status) << one.path << " " << one.body << ": " << answer.body;
    const json document = answer.document();
    ASSERT_TRUE(document.contains("error")) << answer.body;
    EXPECT_THAT(document["error"].get<std::string>(), HasSubstr(one.message));
  }
  EXPECT_EQ(Get("/v2/models/nobody").status, 404);
}

TEST_F(KserveHttp, IsNotReadyBeforeItServes) {
  EdgeServer loading(Options(true, false));
  EXPECT_EQ(Call(&loading, "GET", "/v2/health/live").status, 200);
  EXPECT_EQ(Call(&loading, "GET", "/v2/health/ready").status, 400);
  EXPECT_EQ(Call(&loading, "GET", "/v2/models/tiny/ready").status, 400);
  EXPECT_EQ(Call(&loading, "POST", "/v2/models/tiny/generate", "{}").status, 503);
}

TEST_F(KserveHttp, IsOffWithoutTheProtocol) {
  EdgeServer without(Options(false, true));
  EXPECT_EQ(Call(&without, "GET", "/v2").status, 404);
}

}  // namespace
}  // namespace dunlin::server::kserve

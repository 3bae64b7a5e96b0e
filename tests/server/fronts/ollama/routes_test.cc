// SPDX-License-Identifier: Apache-2.0
// The routes of the HTTP port of an Edge: what they answer to clients, and with which statuses and headers.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "server/edge/edge.h"
#include "server/json/json_value.h"
#include "tests/server/serving/test_models.h"
#include "tests/server/transport/http/raw_client.h"

namespace dunlin::server {
namespace {

using testing::AllOf;
using testing::EndsWith;
using testing::HasSubstr;
using testing::Not;
using testing::SizeIs;
using testing::StartsWith;

class OllamaRoutes : public testing::Test {
 protected:
  void Start(bool page = true, bool ollama = true, bool profile_aliases = false) {
    EdgeOptions options;
    options.serving.profile_aliases = profile_aliases;
    options.http.emplace();
    options.http->address = "127.0.0.1:0";
    options.http->sources = {[] { return std::string(); }, [] { return std::string(); }, [] { return std::string(); }};
    options.fronts.Set("protocols.page", page ? "true" : "false");
    options.fronts.Set("protocols.ollama", ollama ? "true" : "false");
    options.version = "1.2.3";
    const absl::StatusOr<int> port = edge_.Start("127.0.0.1:0", Limits(), &models_.repository(), &observer_, options);
    ASSERT_TRUE(port.ok()) << port.status();
    edge_.SetServing(true);
  }

  // A whole reply: status line, header and body.
  std::string Call(const std::string& method, const std::string& path, const std::string& body = "") {
    RawClient client(edge_.http_address());
    client.Send(absl::StrCat(method, " ", path, " HTTP/1.1\r\nConnection: close\r\nContent-Length: ", body.size(),
                             "\r\n\r\n", body));
    return client.ReadAll();
  }
  static std::string BodyOf(const std::string& reply) { return reply.substr(reply.find("\r\n\r\n") + 4); }
  Json Post(const std::string& path, const std::string& body) { return Json::parse(BodyOf(Call("POST", path, body))); }
  Json Get(const std::string& path) { return Json::parse(BodyOf(Call("GET", path))); }

  RecordingObserver observer_;
  TestModels models_{engine::EngineOptions()};
  Edge edge_;
};

TEST_F(OllamaRoutes, AStreamIsLinesOfJson) {
  Start();
  const std::string reply =
      Call("POST", "/api/chat", R"({"model":"tiny","messages":[{"role":"user","content":"hi"}],"mood":1})");
  EXPECT_THAT(reply, AllOf(StartsWith("HTTP/1.1 200 "), HasSubstr("Content-Type: application/x-ndjson\r\n"),
                           HasSubstr("x-dunlin-ignored: mood\r\n"), HasSubstr(R"("done":true,"done_reason":")")));
  EXPECT_THAT(reply, Not(HasSubstr("data:")));
  EXPECT_EQ(observer_.ignored(), std::vector<std::string>{"/api/chat: mood"});
}

TEST_F(OllamaRoutes, ADocumentIsJson) {
  Start();
  EXPECT_THAT(Call("POST", "/api/generate", R"({"model":"tiny","prompt":"hi","stream":false})"),
              AllOf(StartsWith("HTTP/1.1 200 "), HasSubstr("Content-Type: application/json\r\n"), EndsWith("}}")));
}

TEST_F(OllamaRoutes, ErrorsHaveTheStatusesOfOllama) {
  Start();
  EXPECT_THAT(Call("POST", "/api/chat", R"({"model":"nope","messages":[{"role":"user","content":"a"}]})"),
              AllOf(StartsWith("HTTP/1.1 404 "), HasSubstr(R"({"error":"model 'nope' not found")")));
  EXPECT_THAT(Call("POST", "/api/generate", "{"), StartsWith("HTTP/1.1 400 "));
  EXPECT_THAT(Call("POST", "/api/show", R"({"model":"nope"})"),
              AllOf(StartsWith("HTTP/1.1 404 "), HasSubstr(R"({"error":"model 'nope' not found")")));
  EXPECT_THAT(
      Call("GET", "/api/nothing"),
      AllOf(StartsWith("HTTP/1.1 404 "), HasSubstr(R"({"error":"not found: nothing is served at /api/nothing)")));
}

TEST_F(OllamaRoutes, TellOfModels) {
  Start();
  EXPECT_EQ(Get("/api/version")["dunlin"], "1.2.3");
  const Json tags = Get("/api/tags")["models"];
  ASSERT_THAT(tags, SizeIs(3));
  EXPECT_EQ(tags[0]["name"], "tiny:latest");
  EXPECT_EQ(tags[0]["model"], "tiny:latest");
  EXPECT_EQ(tags[0]["digest"].get<std::string>().size(), 64U);
  EXPECT_EQ(tags[0]["details"]["family"], "gpt2");
  EXPECT_EQ(tags[0]["details"]["quantization_level"], "FP32");
  const engine::Model& tiny = *models_.model("tiny").model;
  EXPECT_EQ(tags[0]["size"], tiny.weight_bytes(engine::Precision::kFp32));
  EXPECT_EQ(tags[2]["capabilities"], Json::array({"embedding"}));
  const Json running = Get("/api/ps")["models"];
  ASSERT_THAT(running, SizeIs(3));
  EXPECT_EQ(running[0]["size_vram"], 0);
  EXPECT_EQ(running[0]["context_length"], kTinyContext);
  EXPECT_EQ(running[0]["expires_at"], "2318-01-01T00:00:00Z") << "it stays";
}

TEST_F(OllamaRoutes, ListEachModelUnderANameOfItsOwn) {
  Start();
  std::unique_ptr<ServedModel> tagged = models_.NewTiny();
  tagged->name = "tiny:latest";
  ASSERT_TRUE(models_.repository().Add(std::move(tagged)).ok());
  for (const char* path : {"/api/tags", "/api/ps"}) {
    std::vector<std::string> names;
    const Json list = Get(path)["models"];
    for (const Json& model : list) names.push_back(model["name"]);
    EXPECT_THAT(names, testing::UnorderedElementsAre("tiny", "tiny:latest", "bare:latest", "encoder:latest")) << path;
  }
}

TEST_F(OllamaRoutes, ShowWhatClientsReadOfAModel) {
  Start();
  models_.AddChatting("hermes", "{# <tool_call> </think> #}{{ messages[-1].content }}");
  const Json shown = Post("/api/show", R"({"model":"hermes:latest"})");
  EXPECT_EQ(shown["capabilities"], Json::array({"completion", "tools", "thinking"}));
  const std::string family = shown["model_info"]["general.architecture"];
  EXPECT_EQ(shown["model_info"][family + ".context_length"], kTinyContext);
  EXPECT_EQ(shown["model_info"]["general.basename"], "hermes:latest");
  EXPECT_EQ(shown["model_info"]["general.parameter_count"], models_.model("hermes").model->num_parameters());
  EXPECT_EQ(Post("/api/show", R"({"name":"bare"})")["capabilities"], Json::array({"completion"}));
}

// VS Code lists models here and sends chats to OpenAI's route.
TEST_F(OllamaRoutes, NamesOfTheListAreThoseOfEveryRoute) {
  Start();
  const std::string name = Get("/api/tags")["models"][0]["model"];
  const Json completion = {
      {"model", name}, {"messages", {{{"role", "user"}, {"content", "hi"}}}}, {"max_tokens", 2}, {"stream", false}};
  EXPECT_EQ(Post("/v1/chat/completions", completion.dump())["usage"]["completion_tokens"], 2);
  EXPECT_EQ(Get("/v1/models/" + name)["id"], name);
}

TEST_F(OllamaRoutes, ListProfilesAsModelsWhenAskedTo) {
  Start(/*page=*/true, /*ollama=*/true, /*profile_aliases=*/true);
  EXPECT_THAT(Call("GET", "/api/tags"), HasSubstr(R"("name":"tiny@flash-bf16:latest")"));
  const Json answer =
      Post("/api/generate", R"({"model":"tiny@math-bf16:latest","prompt":"hi","stream":false})")["dunlin"];
  EXPECT_EQ(answer["execution"]["attention_backend"], "math");
}

TEST_F(OllamaRoutes, PullWhatIsServedAndNothingElse) {
  Start();
  EXPECT_THAT(Call("POST", "/api/pull", R"({"model":"tiny:latest"})"),
              AllOf(StartsWith("HTTP/1.1 200 "), HasSubstr("application/x-ndjson"),
                    EndsWith("\r\n\r\n{\"status\":\"success\"}\n")));
  EXPECT_THAT(Call("POST", "/api/pull", R"({"name":"tiny","stream":false})"),
              AllOf(HasSubstr("application/json"), EndsWith("\r\n\r\n{\"status\":\"success\"}")));
  EXPECT_THAT(Call("POST", "/api/pull", R"({"model":"llama3"})"),
              AllOf(StartsWith("HTTP/1.1 501 "), HasSubstr("models[]"), HasSubstr("model_repository.path")));
}

TEST_F(OllamaRoutes, OfferNothingThatManagesFiles) {
  Start();
  for (const char* path : {"/api/create", "/api/copy", "/api/push", "/api/blobs/sha256:0"}) {
    EXPECT_THAT(Call("POST", path, R"({"model":"tiny"})"),
                AllOf(StartsWith("HTTP/1.1 501 "), HasSubstr("is not offered: models are named by models[]")))
        << path;
  }
  EXPECT_THAT(Call("DELETE", "/api/delete", R"({"model":"tiny"})"),
              AllOf(StartsWith("HTTP/1.1 501 "), HasSubstr(R"({"error":"/api/delete is not offered)")));
}

TEST_F(OllamaRoutes, VectorsAreThoseOfTheOpenAiRoute) {
  Start();
  const Json oracle = Post("/v1/embeddings", R"({"model":"encoder","input":["a bird","sea"],"normalize":true})");
  const Json answer = Post("/api/embed", R"({"model":"encoder:latest","input":["a bird","sea"]})");
  ASSERT_THAT(answer["embeddings"], SizeIs(2));
  for (size_t i = 0; i < 2; ++i) EXPECT_EQ(answer["embeddings"][i], oracle["data"][i]["embedding"]);
  EXPECT_EQ(answer["prompt_eval_count"], oracle["usage"]["prompt_tokens"]);
  EXPECT_EQ(answer["dunlin"]["execution"], oracle["dunlin"]["execution"]);
  EXPECT_EQ(answer["model"], "encoder:latest");
  EXPECT_GT(answer["total_duration"], 0);
  EXPECT_EQ(Post("/api/embeddings", R"({"model":"encoder","prompt":"a bird"})")["embedding"],
            Post("/v1/embeddings", R"({"model":"encoder","input":"a bird"})")["data"][0]["embedding"]);
  const Json fewer = Post("/v1/embeddings", R"({"model":"encoder","input":"sea","normalize":true,"dimensions":4})");
  EXPECT_EQ(Post("/api/embed", R"({"model":"encoder","input":"sea","dimensions":4})")["embeddings"][0],
            fewer["data"][0]["embedding"]);
}

TEST_F(OllamaRoutes, WithoutInputsVectorsAreNone) {
  Start();
  for (const char* input : {R"(,"input":[])", R"(,"input":"")", R"(,"input":null)", ""}) {
    const std::string reply = Call("POST", "/api/embed", std::string(R"({"model":"encoder:latest")") + input + "}");
    EXPECT_THAT(reply, StartsWith("HTTP/1.1 200 ")) << input;
    EXPECT_EQ(BodyOf(reply), R"({"model":"encoder:latest","embeddings":[]})") << input;
  }
  EXPECT_THAT(Post("/api/embed", R"({"model":"encoder","input":[""]})")["embeddings"], SizeIs(1));
  EXPECT_EQ(Post("/api/embeddings", R"({"model":"encoder","prompt":""})").dump(), R"({"embedding":[]})");
  EXPECT_THAT(Call("POST", "/api/embed", R"({"model":"nope"})"), StartsWith("HTTP/1.1 404 "));
  EXPECT_EQ(Post("/api/embed", R"({"model":"tiny"})")["reason"], "WRONG_MODEL_KIND");
  EXPECT_EQ(Post("/api/embed", R"({"model":"encoder","precision":"int4"})")["reason"], "PROFILE_UNSUPPORTED");
}

TEST_F(OllamaRoutes, LongInputsAreTruncatedUnlessTheClientSaysOtherwise) {
  Start();
  std::string text;
  for (int i = 0; i < 2000; ++i) text += "bird ";
  Json body = {{"model", "encoder"}, {"input", text}};
  EXPECT_THAT(Post("/api/embed", body.dump())["embeddings"], SizeIs(1));
  body["truncate"] = false;
  EXPECT_EQ(Post("/api/embed", body.dump())["field"], "input[0]");
  EXPECT_THAT(Call("POST", "/api/embed", R"({"model":"encoder","input":[1]})"),
              AllOf(StartsWith("HTTP/1.1 400 "), HasSubstr(R"({"error":"input[0] is 1; limit is a string")")));
  EXPECT_EQ(Post("/api/embed", R"({"model":"tiny","input":"a"})")["reason"], "WRONG_MODEL_KIND");
}

TEST_F(OllamaRoutes, LeaveTheRootToThePage) {
  Start();
  EXPECT_THAT(Call("GET", "/"), HasSubstr("Content-Type: text/html"));
}

TEST_F(OllamaRoutes, SayThatTheServerRunsWhereThereIsNoPage) {
  Start(/*page=*/false);
  EXPECT_THAT(Call("GET", "/"), AllOf(StartsWith("HTTP/1.1 200 "), EndsWith("\r\n\r\nOllama is running")));
  EXPECT_THAT(Call("HEAD", "/"), AllOf(StartsWith("HTTP/1.1 200 "), EndsWith("\r\n\r\n")));
}

TEST_F(OllamaRoutes, AreNotThereWithoutTheProtocol) {
  Start(/*page=*/false, /*ollama=*/false);
  for (const char* path : {"/", "/api/version", "/api/tags"}) {
    EXPECT_THAT(Call("GET", path), StartsWith("HTTP/1.1 404 ")) << path;
  }
}

}  // namespace
}  // namespace dunlin::server

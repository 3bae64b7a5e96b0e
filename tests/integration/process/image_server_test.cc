// SPDX-License-Identifier: Apache-2.0
// Servers of a model that sees images, in configurations that the served tests do not have; and of one that lost its
// image encoder.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>
#include <vector>

#include "tests/integration/process/child.h"
#include "tests/server/transport/http/raw_client.h"

namespace dunlin::integration {
namespace {

using server::RawClient;
using ::testing::Each;
using ::testing::HasSubstr;
using ::testing::StartsWith;

const std::string kVisionModel = DUNLIN_SOURCE_DIR "/tests/golden/image_encoders/mistral3_vision";

// The first chat of the golden, which has an image of 70 x 31 pixels.
nlohmann::json FirstChat() {
  std::ifstream file(kVisionModel + "/served.json");
  return nlohmann::json::parse(file)["chats"][0]["messages"];
}

// Head and body of the answer.
std::string AskOf(const ServerProcess& server, const nlohmann::json& messages, const std::string& salt = "") {
  const std::string body =
      nlohmann::json{{"model", "v"}, {"messages", messages}, {"max_tokens", 2}, {"cache_salt", salt}}.dump();
  RawClient client(server.http());
  client.Send("POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Length: " +
              std::to_string(body.size()) + "\r\n\r\n" + body);
  return client.ReadAll();
}

std::vector<std::string> ServeArguments(const std::string& model, const std::vector<std::string>& more = {}) {
  std::vector<std::string> arguments = {model, "--name", "v", "--grpc", "127.0.0.1:0", "--http", "127.0.0.1:0"};
  arguments.insert(arguments.end(), more.begin(), more.end());
  return arguments;
}

class LongestEdge : public testing::TestWithParam<int> {};

// Sides are rounded up to squares of eight pixels, whatever the edge is.
TEST_P(LongestEdge, IsAnyNumberOfPixels) {
  const ServerProcess server(ServerProcess::Arguments{
      ServeArguments(kVisionModel, {"--set", "models.0.images.longest_edge=" + std::to_string(GetParam())})});
  ASSERT_TRUE(server.ready()) << server.Log();
  EXPECT_THAT(AskOf(server, FirstChat()), StartsWith("HTTP/1.1 200 ")) << server.Log();
}

INSTANTIATE_TEST_SUITE_P(All, LongestEdge, testing::Values(1, 8, 9, 20, 47, 1000));

TEST(ImageServer, RefusesNoneOfManyAtOnce) {
  const ServerProcess server(ServerProcess::Arguments{ServeArguments(kVisionModel)});
  ASSERT_TRUE(server.ready()) << server.Log();
  std::vector<std::string> answers(48);
  std::vector<std::thread> callers;
  for (size_t first = 0; first < 8; ++first) {
    callers.emplace_back([&answers, &server, first] {
      for (size_t i = first; i < answers.size(); i += 8) answers[i] = AskOf(server, FirstChat(), std::to_string(i));
    });
  }
  for (std::thread& caller : callers) caller.join();
  EXPECT_THAT(answers, Each(StartsWith("HTTP/1.1 200 ")));
}

// Of a checkpoint whose vision tensors have other names.
TEST(ImageServer, WithoutTheEncodersTensorsServesText) {
  const std::filesystem::path folder = std::filesystem::path(testing::TempDir()) / "vision_without_encoder";
  std::filesystem::remove_all(folder);
  std::filesystem::copy(kVisionModel, folder);
  std::ifstream in(folder / "model.safetensors", std::ios::binary);
  std::string file((std::istreambuf_iterator<char>(in)), std::istreambuf_iterator<char>());
  in.close();
  const std::string name = "vision_tower.";
  int num_renamed = 0;
  for (size_t at = file.find(name); at != std::string::npos; at = file.find(name, at + 1), ++num_renamed) {
    file.replace(at, name.size(), "vision_trash.");
  }
  ASSERT_GT(num_renamed, 0);
  std::ofstream(folder / "model.safetensors", std::ios::binary) << file;
  const ServerProcess server(ServerProcess::Arguments{ServeArguments(folder.string())});
  ASSERT_TRUE(server.ready()) << server.Log();
  EXPECT_THAT(server.Log(), HasSubstr("model \"v\": takes no images: image encoder: "));
  EXPECT_THAT(AskOf(server, FirstChat()), StartsWith("HTTP/1.1 400 "));
  EXPECT_THAT(AskOf(server, {{{"role", "user"}, {"content", "w30 w31"}}}), StartsWith("HTTP/1.1 200 "));
}

TEST(ImageServer, DoesWithoutTheEncoderOnRequest) {
  const ServerProcess server(
      ServerProcess::Arguments{ServeArguments(kVisionModel, {"--set", "models.0.images.max_images=0"})});
  ASSERT_TRUE(server.ready()) << server.Log();
  const std::string answer = AskOf(server, FirstChat());
  EXPECT_THAT(answer, StartsWith("HTTP/1.1 400 "));
  EXPECT_THAT(answer, HasSubstr("models[].images.max_images is 0"));
}

}  // namespace
}  // namespace dunlin::integration

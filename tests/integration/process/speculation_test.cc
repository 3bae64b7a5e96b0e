// SPDX-License-Identifier: Apache-2.0
// Speculation in a served process: every API takes it by request and by the config, no answer depends on it, and what
// responses say of guesses adds up to the metrics.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tests/integration/process/adapters_fixture.h"
#include "tests/integration/process/demo_server.h"

namespace dunlin::integration {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;

// What comes next has been there before, so that there are guesses.
constexpr char kRepeated[] = "The dunlin eats worms. The dunlin eats worms. The dunlin eats worms. The dunlin eats";

struct Api {
  const char* path;
  json body;
  json::json_pointer answer;
  std::vector<json::json_pointer> guesses;  // whose sum are the guesses that were verified
};

std::vector<Api> Apis() {
  using Pointer = json::json_pointer;
  const json messages = json::array({{{"role", "user"}, {"content", kRepeated}}});
  const std::vector<Pointer> details = {Pointer("/usage/completion_tokens_details/accepted_prediction_tokens"),
                                        Pointer("/usage/completion_tokens_details/rejected_prediction_tokens")};
  const std::vector<Pointer> drafted = {Pointer("/dunlin/speculation/drafted_tokens")};
  const json input = {{"name", "text_input"}, {"datatype", "BYTES"}, {"shape", {1}}, {"data", {kRepeated}}};
  return {
      {"/v1/completions", {{"prompt", kRepeated}, {"max_tokens", 40}}, Pointer("/choices/0/text"), details},
      {"/v1/chat/completions",
       {{"messages", messages}, {"max_tokens", 40}},
       Pointer("/choices/0/message/content"),
       details},
      {"/v1/responses",
       {{"input", kRepeated}, {"max_output_tokens", 40}},
       Pointer("/output/0/content/0/text"),
       drafted},
      {"/v1/messages", {{"messages", messages}, {"max_tokens", 40}}, Pointer("/content/0/text"), drafted},
      {"/v2/models/demo/infer",
       {{"inputs", {input}}, {"parameters", {{"max_tokens", 40}}}},
       Pointer("/outputs/0/data/0"),
       {Pointer("/parameters/drafted_tokens")}},
      {"/v2/models/demo/generate",
       {{"text_input", kRepeated}, {"parameters", {{"max_tokens", 40}}}},
       Pointer("/text_output"),
       {Pointer("/drafted_tokens")}},
  };
}

// Greedily, on after the end of a text. Without speculation nothing is said of it.
json Ask(const ServerProcess& server, const Api& api, const json& speculation) {
  json body = api.body;
  json& fields = body.contains("parameters") ? body["parameters"] : body;
  if (&fields == &body) body["model"] = "demo";
  fields["temperature"] = 0;
  fields["ignore_eos"] = true;
  if (!speculation.is_null()) fields["speculation"] = speculation;
  return JsonOf(PostOnce(server.http(), api.path, body.dump()));
}

int64_t GuessesIn(const json& response, const std::vector<json::json_pointer>& places) {
  int64_t sum = 0;
  for (const json::json_pointer& place : places) {
    if (!response.contains(place)) continue;
    const json& count = response[place];
    sum += count.is_string() ? std::stoll(count.get<std::string>()) : count.get<int64_t>();
  }
  return sum;
}

class Speculation : public testing::Test {
 protected:
  std::unique_ptr<ServerProcess> Serve(const char* by_default) {
    json model = LiveFolder::Model("demo", kDemoModel);
    model["speculation"] = by_default;
    folder_.WriteConfig({model});
    auto server = std::make_unique<ServerProcess>(folder_.config());
    EXPECT_TRUE(server->ready()) << server->Log();
    return server;
  }
  static double Metric(const ServerProcess& server, const std::string& name) {
    return MetricValue(HttpGet(server.http(), "/metrics"), "vllm:spec_decode_num_" + name + R"({model_name="demo"})");
  }

  const LiveFolder folder_{"speculation"};
};

TEST_F(Speculation, EveryApiTakesItAndSaysWhatWasGuessed) {
  const auto server = Serve("off");
  int64_t guessed = 0;
  for (const Api& api : Apis()) {
    const json off = Ask(*server, api, nullptr);
    ASSERT_TRUE(off.contains(api.answer)) << api.path << off.dump();
    EXPECT_EQ(GuessesIn(off, api.guesses), 0) << api.path << off.dump();
    int64_t of_api = 0;
    for (const json& speculation : {json("auto"), json(4), json("off")}) {
      const json with = Ask(*server, api, speculation);
      EXPECT_EQ(with[api.answer], off[api.answer]) << api.path << " " << speculation;
      of_api += GuessesIn(with, api.guesses);
    }
    EXPECT_GT(of_api, 0) << api.path;
    guessed += of_api;
    for (const json& other : {json(17), json(int64_t{1} << 40), json(-1), json(1e30), json(true), json("on")}) {
      const std::string answer = Ask(*server, api, other).dump();
      EXPECT_THAT(answer, HasSubstr("off, auto, or a number from 0 to 16")) << api.path << " " << other;
    }
    EXPECT_EQ(GuessesIn(Ask(*server, api, 0), api.guesses), 0) << api.path;
  }
  const CommandResult generated =
      RunDunlin({"generate", "--address", server->grpc(), "--model", "demo", "--temperature", "0", "--ignore-eos",
                 "--max-tokens", "40", "--speculation", "auto", "--json", kRepeated});
  ASSERT_EQ(generated.status, 0) << generated.err;
  const json answer = json::parse(generated.out);
  EXPECT_EQ(answer["text"], Ask(*server, Apis()[0], nullptr)[Apis()[0].answer]);
  guessed += answer["finish"].value("drafted_tokens", 0);
  EXPECT_GT(guessed, 0);
  EXPECT_TRUE(ComesToValue(*server, R"(vllm:spec_decode_num_draft_tokens_total{model_name="demo"})",
                           static_cast<double>(guessed)));
  EXPECT_LE(Metric(*server, "accepted_tokens_total"), static_cast<double>(guessed));
  EXPECT_GT(Metric(*server, "drafts_total"), 0);
}

TEST_F(Speculation, OfTheConfigIsThatOfRequestsThatSayNothing) {
  const auto server = Serve("auto");
  const Api completions = Apis()[0];
  const json silent = Ask(*server, completions, nullptr);
  EXPECT_EQ(silent[completions.answer], Ask(*server, completions, "off")[completions.answer]);
  EXPECT_GT(GuessesIn(silent, completions.guesses), 0) << silent.dump();
}

}  // namespace
}  // namespace dunlin::integration

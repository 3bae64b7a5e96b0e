// SPDX-License-Identifier: Apache-2.0
// Keys end to end: `dunlin key new`, a server that follows its key file, clients that send a key, what the log and the
// metrics say, and that no key is left anywhere.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>
#include <vector>

#include "tests/integration/process/child.h"
#include "tests/integration/process/demo_server.h"

namespace dunlin::integration {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::MatchesRegex;
using testing::Not;

std::string TextOf(const std::string& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

class KeysProcess : public testing::Test {
 protected:
  KeysProcess() : folder_(testing::TempDir() + "keys_" + std::to_string(getpid())), file_(folder_ + "/keys.json") {
    std::filesystem::remove_all(folder_);
    std::filesystem::create_directories(folder_);
  }
  ~KeysProcess() override { std::filesystem::remove_all(folder_); }

  // Draws a key, which goes into the key file and into a file of its own, whose path is the result.
  std::string NewKey(const std::string& name, const std::vector<std::string>& more = {}) {
    std::vector<std::string> arguments = {"key", "new", "--name", name, "--file", file_};
    arguments.insert(arguments.end(), more.begin(), more.end());
    const CommandResult result = RunDunlin(arguments);
    EXPECT_EQ(result.status, 0) << result.err;
    keys_.push_back(result.out.substr(0, result.out.find('\n')));
    const std::string path = folder_ + "/" + name + "." + std::to_string(keys_.size());
    std::ofstream(path) << result.out;
    return path;
  }
  // In the file's place at once, as an editor does.
  void Replace(const std::string& text) const {
    std::ofstream(file_ + ".edited") << text;
    std::filesystem::rename(file_ + ".edited", file_);
  }
  static CommandResult Generate(const ServerProcess& server, const std::vector<std::string>& more) {
    std::vector<std::string> arguments = {"generate",     "--address", server.grpc(), "--model", "demo",
                                          "--max-tokens", "2"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    arguments.emplace_back("The");
    return RunDunlin(arguments);
  }
  // Whether the client gets this exit status within 10 s.
  static bool ComesToStatus(const ServerProcess& server, const std::string& key_file, int status) {
    for (int i = 0; i < 40; ++i) {
      if (Generate(server, {"--api-key-file", key_file}).status == status) return true;
      std::this_thread::sleep_for(std::chrono::milliseconds(250));
    }
    return false;
  }

  std::string folder_;
  std::string file_;
  std::vector<std::string> keys_;
};

TEST_F(KeysProcess, AKeyIsPrintedOnceAndTheFileHasItsHash) {
  NewKey("team-a",
         {"--model", "demo", "--precision", "bf16,fp8", "--requests-per-minute", "60", "--max-priority", "5"});
  EXPECT_THAT(keys_[0], MatchesRegex("dunlin_[A-Za-z0-9_-]{43}"));
  const std::string text = TextOf(file_);
  EXPECT_THAT(text, Not(HasSubstr(keys_[0].substr(7))));
  const nlohmann::json entry = nlohmann::json::parse(text)["keys"][0];
  EXPECT_EQ(entry["models"], nlohmann::json({"demo"}));
  EXPECT_EQ(entry["precisions"], nlohmann::json({"bf16", "fp8"}));
  EXPECT_EQ(entry["requests_per_minute"], 60);
  EXPECT_EQ(entry["max_priority"], 5);
  EXPECT_EQ(entry["permissions"], nlohmann::json({"infer"}));

  const CommandResult printed = RunDunlin({"key", "new", "--name", "b", "--expires-in-days", "1"});
  EXPECT_EQ(printed.status, 0) << printed.err;
  const std::string second = printed.out.substr(printed.out.find('\n') + 1);
  EXPECT_EQ(nlohmann::json::parse(second)["name"], "b");
  EXPECT_TRUE(nlohmann::json::parse(second).contains("not_after"));
  const CommandResult bad = RunDunlin({"key", "new", "--name", "a b"});
  EXPECT_EQ(bad.status, 1);
  EXPECT_THAT(bad.err, HasSubstr("name is not 1 to 64 letters"));
  EXPECT_EQ(RunDunlin({"key"}).status, 2);
}

TEST_F(KeysProcess, AServerFollowsItsKeyFileAndLeavesNoKeyAnywhere) {
  const std::string team = NewKey("team-a");
  const std::string metrics = NewKey("prometheus", {"--permission", "metrics"});
  const ServerProcess server(kDemo, {"--set", "access.keys_file=" + file_});
  ASSERT_TRUE(server.ready()) << server.Log();
  EXPECT_EQ(Generate(server, {"--api-key-file", team}).status, 0);
  const CommandResult none = Generate(server, {});
  EXPECT_EQ(none.status, 1);
  EXPECT_THAT(none.out + none.err, HasSubstr("UNAUTHENTICATED: the call needs a valid key"));
  EXPECT_THAT(Generate(server, {"--api-key-file", metrics}).err, HasSubstr("PERMISSION_DENIED"));
  EXPECT_EQ(Generate(server, {"--api-key-file", folder_ + "/none"}).status, 2);
  setenv("DUNLIN_API_KEY", keys_[0].c_str(), 1);
  EXPECT_EQ(Generate(server, {}).status, 0);
  EXPECT_EQ(RunDunlin({"load", "--address", server.grpc(), "--model", "demo", "--num-prompts", "2", "--quiet",
                       "--check", "completed>=2"})
                .status,
            0);
  EXPECT_EQ(RunDunlin({"load", "--address", server.http(), "--protocol", "openai", "--model", "demo", "--num-prompts",
                       "2", "--quiet", "--check", "completed>=2"})
                .status,
            0);
  unsetenv("DUNLIN_API_KEY");
  EXPECT_EQ(RunDunlin({"healthcheck", "--address", server.grpc()}).status, 0) << "probes need no key";
  EXPECT_EQ(RunDunlin({"healthcheck", "--address", server.grpc(), "--service", "model/demo"}).status, 1);
  EXPECT_EQ(
      RunDunlin({"healthcheck", "--address", server.grpc(), "--service", "model/demo", "--api-key-file", team}).status,
      0);
  EXPECT_THAT(HttpGet(server.http(), "/metrics"), Not(HasSubstr("dunlin_ready")));

  const std::string other = NewKey("team-b");
  EXPECT_TRUE(ComesToStatus(server, other, 0));
  nlohmann::json document = nlohmann::json::parse(TextOf(file_));
  document["keys"].erase(0);  // team-a
  Replace(document.dump());
  EXPECT_TRUE(ComesToStatus(server, team, 1)) << "withdrawn";
  Replace("{");
  EXPECT_TRUE(ComesToLog(server, "keys: the 2 of before stay in force: key file")) << server.Log();
  EXPECT_EQ(Generate(server, {"--api-key-file", other}).status, 0);

  EXPECT_TRUE(ComesToLog(server, "access denied key=unknown endpoint=\"/dunlin.v1.GenerationService/Generate\" peer="));
  EXPECT_TRUE(ComesToLog(server, "access denied key=prometheus endpoint=\"/dunlin.v1.GenerationService/Generate\""));
  EXPECT_TRUE(ComesToLog(server, "reason=\"needs permission infer\""));
  for (const std::string& key : keys_) EXPECT_THAT(server.Log(), Not(HasSubstr(key.substr(7, 20))));
}

TEST_F(KeysProcess, AServerWithABrokenKeyFileDoesNotStart) {
  Replace(R"({"keys": [{"name": "a"}]})");
  const CommandResult result = RunDunlin({"serve", "--config", kDemo, "--set", "listen.grpc=127.0.0.1:0", "--set",
                                          "listen.http=127.0.0.1:0", "--set", "access.keys_file=" + file_});
  EXPECT_EQ(result.status, 1);
  EXPECT_THAT(result.err, AllOf(HasSubstr("cannot start: key file"), HasSubstr("keys[0]: hashes has no entry")));
}

}  // namespace
}  // namespace dunlin::integration

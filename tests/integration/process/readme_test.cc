// SPDX-License-Identifier: Apache-2.0
// The commands of README.md that chat and that constrain the output, run as they stand there, against models/demo.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tests/integration/process/child.h"

namespace dunlin::integration {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;
using ::testing::SizeIs;

constexpr char kBinary[] = "build/release/dunlin";

// Commands of the code blocks of README.md. One begins with the binary and goes on in lines that are indented.
std::vector<std::string> ReadmeCommands() {
  std::vector<std::string> commands;
  bool continues = false;
  std::ifstream readme(DUNLIN_SOURCE_DIR "/README.md");
  for (std::string line; std::getline(readme, line);) {
    if (line.rfind(std::string(kBinary) + " ", 0) == 0) {
      commands.push_back(line);
      continues = true;
    } else if (continues && line.rfind("  ", 0) == 0) {
      commands.back() += "\n" + line;
    } else {
      continues = false;
    }
  }
  return commands;
}

std::vector<std::string> CommandsWith(const std::vector<std::string>& words) {
  std::vector<std::string> found;
  for (const std::string& command : ReadmeCommands()) {
    bool all = true;
    for (const std::string& word : words) all = all && command.find(word) != std::string::npos;
    if (all) found.push_back(command);
  }
  return found;
}

// A folder in which the path of the README names the binary under test.
class Checkout {
 public:
  Checkout() {
    std::string pattern = (fs::temp_directory_path() / "dunlin_readme_XXXXXX").string();
    root_ = mkdtemp(pattern.data());
    fs::create_directories((root_ / kBinary).parent_path());
    fs::create_symlink(DUNLIN_BINARY, root_ / kBinary);
  }
  ~Checkout() { fs::remove_all(root_); }
  Checkout(const Checkout&) = delete;
  Checkout& operator=(const Checkout&) = delete;

  // The output of a command of the README, with this input, against this server; at most 120 s. The status must be 0.
  std::string Run(const std::string& command, const std::string& address, const std::string& input) const {
    const fs::path script = root_ / "command";
    std::ofstream(script) << command << "\n";
    std::ofstream(root_ / "input") << input;
    const std::string line =
        "cd " + root_.string() + " && DUNLIN_ADDRESS=" + address + " timeout 120 sh command <input";
    FILE* pipe = popen(line.c_str(), "r");
    std::string output;
    char bytes[4096];
    for (size_t count = 0; (count = fread(bytes, 1, sizeof(bytes), pipe)) > 0;) output.append(bytes, count);
    const int status = pclose(pipe);
    EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << command;
    return output;
  }

 private:
  fs::path root_;
};

class ReadmeTest : public ::testing::Test {
 protected:
  static void SetUpTestSuite() { server_ = new ServerProcess(DUNLIN_SOURCE_DIR "/configs/demo.json"); }
  static void TearDownTestSuite() {
    delete server_;
    server_ = nullptr;
  }
  void SetUp() override { ASSERT_TRUE(server_->ready()) << server_->Log(); }

  static ServerProcess* server_;
  const Checkout checkout_;
};

ServerProcess* ReadmeTest::server_ = nullptr;

TEST_F(ReadmeTest, TheChatCallAnswers) {
  std::vector<std::string> calls;
  for (const std::string& command : CommandsWith({" generate ", " --chat "})) {
    if (command.find("--json-schema") == std::string::npos) calls.push_back(command);
  }
  ASSERT_THAT(calls, SizeIs(1));
  EXPECT_GT(checkout_.Run(calls[0], server_->grpc(), "").size(), 1U) << "an answer and a line break";
}

TEST_F(ReadmeTest, TheChatCommandAnswersEveryLine) {
  const std::vector<std::string> calls = CommandsWith({" chat --"});
  ASSERT_THAT(calls, SizeIs(1));
  const std::string out = checkout_.Run(calls[0], server_->grpc(), "Hello!\nAnd then?\n/history\n");
  const size_t begin = out.rfind("[{");
  ASSERT_NE(begin, std::string::npos) << out;
  EXPECT_THAT(Json::parse(out.substr(begin), nullptr, false), SizeIs(4)) << out;
}

TEST_F(ReadmeTest, TheSchemaCallGivesJsonOfTheSchema) {
  const std::vector<std::string> calls = CommandsWith({"--json-schema '"});
  ASSERT_THAT(calls, SizeIs(1));
  const std::string& call = calls[0];
  const size_t begin = call.find("--json-schema '") + std::string("--json-schema '").size();
  const Json schema = Json::parse(call.substr(begin, call.find('\'', begin) - begin), nullptr, false);
  ASSERT_TRUE(schema.is_object()) << call;
  const std::string out = checkout_.Run(call, server_->grpc(), "");
  const Json json = Json::parse(out, nullptr, false);
  ASSERT_TRUE(json.is_object()) << out;
  EXPECT_THAT(json, SizeIs(schema["properties"].size())) << out;
  for (const auto& [key, value] : schema["properties"].items()) EXPECT_TRUE(json.contains(key)) << key << ": " << out;
}

}  // namespace
}  // namespace dunlin::integration

// SPDX-License-Identifier: Apache-2.0
// What commands do with files that are not what their user takes them for: outputs that cannot be written, texts
// without end.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <string>
#include <vector>

#include "tests/integration/process/child.h"

namespace dunlin::integration {
namespace {

using testing::HasSubstr;

// The exit status of the binary with these arguments, by a shell.
int StatusOf(const std::string& arguments) {
  const int status = std::system((std::string(DUNLIN_BINARY) + " " + arguments + " 2> /dev/null").c_str());
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

TEST(CommandFiles, OutputThatCannotBeWrittenIsAFailure) {
  const std::string file = testing::TempDir() + "dunlin_command_files_keys.json";
  const std::vector<std::string> commands = {"--help",
                                             "--version",
                                             "serve --help",
                                             "schema",
                                             "config " DUNLIN_SOURCE_DIR "/models/demo",
                                             "inspect " DUNLIN_SOURCE_DIR "/models/demo",
                                             "key new --name a --file " + file};
  for (const std::string& command : commands) {
    std::filesystem::remove(file);
    EXPECT_EQ(StatusOf(command + " > /dev/null"), 0) << command;
    std::filesystem::remove(file);
    EXPECT_EQ(StatusOf(command + " > /dev/full"), 1) << command;
    EXPECT_EQ(StatusOf(command + " >&-"), 1) << command << " without a standard output";
  }
  std::filesystem::remove(file);
}

TEST(CommandFiles, AKeyThatCouldNotBePrintedIsInNoFile) {
  const std::string file = testing::TempDir() + "dunlin_command_files_unseen.json";
  const std::string command = "key new --name a --file " + file;
  std::filesystem::remove(file);
  constexpr int kNobodyReads = 9;
  int ends[2] = {};
  ASSERT_EQ(pipe(ends), 0);
  ASSERT_EQ(dup2(ends[1], kNobodyReads), kNobodyReads);
  close(ends[0]);
  close(ends[1]);
  for (const char* output : {" > /dev/full", " >&-", " >&9"}) {
    EXPECT_EQ(StatusOf(command + output), 1) << output;
    EXPECT_FALSE(std::filesystem::exists(file)) << output;
    EXPECT_FALSE(std::filesystem::exists(file + ".new")) << output << ": the next command could not change the file";
  }
  close(kNobodyReads);
  EXPECT_EQ(std::system(("ulimit -f 0; " DUNLIN_BINARY " " + command + " > /dev/null 2>&1").c_str()), 1 << 8);
  EXPECT_FALSE(std::filesystem::exists(file + ".new")) << "of a file system's limit";
  const CommandResult named = RunDunlin({"key", "new", "--name", "caf\xe9", "--file", file});
  EXPECT_EQ(named.status, 1);
  EXPECT_THAT(named.err, HasSubstr(R"("caf\xe9" is not UTF-8)"));
  EXPECT_FALSE(std::filesystem::exists(file + ".new"));
  EXPECT_EQ(StatusOf(command + " > /dev/null"), 0);
  const auto size = std::filesystem::file_size(file);
  EXPECT_EQ(StatusOf(command + " > /dev/full"), 1);
  EXPECT_EQ(std::filesystem::file_size(file), size) << "nor does it join the earlier key of the name";
  std::filesystem::remove(file);
}

TEST(CommandFiles, TextsWithoutEndAreRefused) {
  const std::vector<std::string> generate = {"generate", "--model", "m", "--address", "127.0.0.1:1"};
  for (const char* option : {"--api-key-file", "--prompt-file"}) {
    std::vector<std::string> arguments = generate;
    arguments.insert(arguments.end(), {option, "/dev/zero"});
    if (std::string(option) == "--api-key-file") arguments.emplace_back("hello");
    const CommandResult result = RunDunlin(arguments);
    EXPECT_EQ(result.status, 2) << option;
    EXPECT_THAT(result.err, HasSubstr(std::string(option) + ": /dev/zero has more than 67108864 bytes"));
  }
  const CommandResult result = RunDunlin({"calibrate", DUNLIN_SOURCE_DIR "/models/demo", "--text", "/dev/zero", "--out",
                                          testing::TempDir() + "dunlin_no_scales"});
  EXPECT_EQ(result.status, 1);
  EXPECT_THAT(result.err, HasSubstr("--text /dev/zero has more than 67108864 bytes"));
}

TEST(CommandFiles, ADirectoryIsNoText) {
  const CommandResult result = RunDunlin({"calibrate", DUNLIN_SOURCE_DIR "/models/demo", "--text", "/tmp", "--out",
                                          testing::TempDir() + "dunlin_no_scales"});
  EXPECT_EQ(result.status, 1);
  EXPECT_THAT(result.err, HasSubstr("--text /tmp cannot be read"));
}

TEST(CommandFiles, NumbersOfOptionsAreNumbers) {
  for (const char* option : {"--rate", "--duration", "--warmup"}) {
    const CommandResult result = RunDunlin({"load", "--model", "m", "--address", "127.0.0.1:1", option, "nan"});
    EXPECT_EQ(result.status, 2) << option;
    EXPECT_THAT(result.err, HasSubstr("Value nan is not a number")) << option;
  }
}

}  // namespace
}  // namespace dunlin::integration

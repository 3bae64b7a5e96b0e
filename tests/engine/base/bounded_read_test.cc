// SPDX-License-Identifier: Apache-2.0
#include "engine/base/bounded_read.h"

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <utility>

#include "tests/engine/base/temp_directory.h"

namespace dunlin::engine {
namespace {

TEST(ReadAtMost, TakesAsManyBytesAsTheLimit) {
  for (const size_t bytes : {0UL, 1UL, 65535UL, 65536UL, 65537UL, 200000UL}) {
    const std::string text(bytes, 'x');
    std::istringstream in(text);
    const absl::StatusOr<std::string> read = ReadAtMost(bytes, &in);
    ASSERT_TRUE(read.ok()) << bytes << ": " << read.status();
    EXPECT_EQ(*read, text);
  }
}

TEST(ReadAtMost, RefusesOneByteMore) {
  std::istringstream in(std::string(65537, 'x'));
  EXPECT_EQ(ReadAtMost(65536, &in).status(), absl::InvalidArgumentError("has more than 65536 bytes"));
}

TEST(ReadAtMost, SaysWhatCannotBeRead) {
  for (const char* path : {"/", "/nonexistent"}) {
    std::ifstream in(path);
    EXPECT_EQ(ReadAtMost(10, &in).status(), absl::DataLossError("cannot be read")) << path;
  }
}

TEST(ReadRegularFile, TakesAsManyBytesAsTheLimitAndFollowsLinks) {
  const TempDirectory temp;
  for (const size_t bytes : {0UL, 65536UL, 200000UL}) {
    temp.Write("text", std::string(bytes, 'x'));
    std::filesystem::create_symlink(temp.File("text"), temp.File("link" + std::to_string(bytes)));
    const absl::StatusOr<std::string> read = ReadRegularFile(temp.File("link" + std::to_string(bytes)), bytes);
    ASSERT_TRUE(read.ok()) << bytes << ": " << read.status();
    EXPECT_EQ(*read, std::string(bytes, 'x'));
  }
  EXPECT_EQ(ReadRegularFile(temp.File("text"), 199999).status(),
            absl::InvalidArgumentError("has 200000 bytes; limit is 199999"));
  EXPECT_EQ(ReadRegularFile("/proc/self/status", 3).status(), absl::InvalidArgumentError("has more than 3 bytes"));
  EXPECT_EQ(ReadRegularFile(temp.File("none"), 9).status(), absl::NotFoundError("No such file or directory"));
  EXPECT_EQ(ReadRegularFile(temp.File("text/x"), 9).status(), absl::NotFoundError("Not a directory"));
}

TEST(ReadRegularFile, WaitsForNothingAndSaysWhatItIs) {
  const TempDirectory temp;
  ASSERT_EQ(mkfifo(temp.File("pipe").c_str(), 0600), 0);
  std::filesystem::create_symlink(temp.File("pipe"), temp.File("link"));
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  ASSERT_LT(temp.File("socket").size(), sizeof(address.sun_path));
  temp.File("socket").copy(address.sun_path, sizeof(address.sun_path) - 1);
  const int listener = socket(AF_UNIX, SOCK_STREAM, 0);
  ASSERT_EQ(bind(listener, reinterpret_cast<const sockaddr*>(&address), sizeof(address)), 0);
  const std::pair<std::string, const char*> kRows[] = {{temp.File("pipe"), "a pipe"},
                                                       {temp.File("link"), "a pipe"},
                                                       {temp.File("socket"), "a socket"},
                                                       {"/", "a directory"},
                                                       {"/dev/zero", "a character device"}};
  for (const auto& [path, kind] : kRows) {
    EXPECT_EQ(ReadRegularFile(path, 100).status(),
              absl::InvalidArgumentError(std::string("is ") + kind + ", not a regular file"))
        << path;
  }
  close(listener);
}

}  // namespace
}  // namespace dunlin::engine

#include "engine/base/file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <filesystem>
#include <string>

#include "tests/engine/base/temp_directory.h"

namespace dunlin::engine {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
namespace fs = std::filesystem;

Directory OpenOrDie(const std::string& path) {
  absl::StatusOr<Directory> directory = Directory::Open(path);
  EXPECT_TRUE(directory.ok()) << directory.status();
  return *std::move(directory);
}

TEST(Directory, ReadsAFileOfItsOwn) {
  const TempDirectory temp;
  temp.Write("a.json", "hello");
  const Directory directory = OpenOrDie(temp.path());
  EXPECT_EQ(directory.ReadFile("a.json", 5).value(), "hello");
  EXPECT_TRUE(directory.Has("a.json"));
  EXPECT_FALSE(directory.Has("b.json"));
}

TEST(Directory, RefusesFilesAboveTheLimit) {
  const TempDirectory temp;
  temp.Write("a.json", "hello!");
  const absl::Status status = OpenOrDie(temp.path()).ReadFile("a.json", 5).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()), HasSubstr("a.json: has 6 bytes; limit is 5"));
}

TEST(Directory, RefusesNamesThatAreNotPlain) {
  const TempDirectory temp;
  const Directory directory = OpenOrDie(temp.path());
  for (const std::string& name :
       {std::string(""), std::string("."), std::string(".."), std::string("../a"), std::string("/etc/passwd"),
        std::string("a/b"), std::string("%2e%2e"), std::string("a\0b", 3), std::string(".hidden"), std::string("a b"),
        std::string("/proc/self/environ"), std::string(256, 'a')}) {
    EXPECT_EQ(directory.OpenFile(name).status().code(), absl::StatusCode::kInvalidArgument) << name;
  }
  EXPECT_EQ(directory.OpenFile("absent").status().code(), absl::StatusCode::kNotFound);
}

TEST(Directory, FollowsLinksOnlyInside) {
  const TempDirectory outside;
  outside.Write("secret", "secret");
  const TempDirectory temp;
  temp.Write("real", "real");
  fs::create_symlink("real", temp.File("relative"));
  fs::create_symlink(temp.File("real"), temp.File("absolute"));
  fs::create_symlink(outside.File("secret"), temp.File("out"));
  fs::create_symlink("../" + fs::path(outside.path()).filename().string() + "/secret", temp.File("dots"));
  fs::create_symlink("loop", temp.File("loop"));
  const Directory directory = OpenOrDie(temp.path());
  EXPECT_EQ(directory.ReadFile("relative", 10).value(), "real");
  EXPECT_EQ(directory.ReadFile("absolute", 10).value(), "real");
  for (const char* name : {"out", "dots"}) {
    const absl::Status status = directory.OpenFile(name).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(std::string(status.message()), HasSubstr(std::string(name) + ": a symbolic link that leaves"));
  }
  EXPECT_EQ(directory.OpenFile("loop").status().code(), absl::StatusCode::kInvalidArgument);
}

TEST(Directory, ASiblingWhoseNameStartsAlikeIsOutside) {
  const TempDirectory temp;
  fs::create_directory(temp.File("model"));
  fs::create_directory(temp.File("model2"));
  temp.Write("model2/a", "x");
  fs::create_symlink("../model2/a", temp.File("model/a"));
  EXPECT_FALSE(OpenOrDie(temp.File("model")).OpenFile("a").ok());
}

TEST(Directory, MayItselfBeALink) {
  const TempDirectory temp;
  fs::create_directory(temp.File("v1"));
  temp.Write("v1/a", "x");
  fs::create_symlink("v1", temp.File("current"));
  EXPECT_EQ(OpenOrDie(temp.File("current")).ReadFile("a", 1).value(), "x");
}

TEST(Directory, RefusesPipesAndDirectoriesWithoutBlocking) {
  const TempDirectory temp;
  ASSERT_EQ(mkfifo(temp.File("pipe").c_str(), 0600), 0);
  fs::create_directory(temp.File("folder"));
  const Directory directory = OpenOrDie(temp.path());
  for (const char* name : {"pipe", "folder"}) {
    const absl::Status status = directory.OpenFile(name).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(std::string(status.message()), HasSubstr("not a regular file"));
  }
}

TEST(Directory, ListsBySuffixInOrder) {
  const TempDirectory temp;
  for (const char* name : {"b.bin", "a.bin", "c.txt", ".d.bin"}) temp.Write(name, "");
  const Directory directory = OpenOrDie(temp.path());
  EXPECT_THAT(directory.List(".bin", 2).value(), ElementsAre("a.bin", "b.bin"));
  EXPECT_EQ(directory.List(".bin", 1).status().code(), absl::StatusCode::kResourceExhausted);
}

TEST(Directory, OpenNamesWhatIsWrong) {
  const TempDirectory temp;
  temp.Write("file", "");
  EXPECT_EQ(Directory::Open(temp.File("absent")).status().code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(Directory::Open(temp.File("file")).status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(Directory::Open(std::string("a\0b", 3)).status().code(), absl::StatusCode::kInvalidArgument);
}

TEST(File, NoticesThatItWasCutShort) {
  const TempDirectory temp;
  temp.Write("a", "0123456789");
  const absl::StatusOr<File> file = OpenOrDie(temp.path()).OpenFile("a");
  ASSERT_TRUE(file.ok());
  EXPECT_TRUE(file->CheckUnchanged().ok());
  ASSERT_EQ(truncate(temp.File("a").c_str(), 4), 0);
  std::array<std::byte, 8> bytes;
  const absl::Status status = file->ReadAt(0, bytes);
  EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss);
  EXPECT_THAT(std::string(status.message()), HasSubstr("a: ends at byte 4, had 10 bytes when it was opened"));
  EXPECT_EQ(file->CheckUnchanged().code(), absl::StatusCode::kDataLoss);
}

}  // namespace
}  // namespace dunlin::engine

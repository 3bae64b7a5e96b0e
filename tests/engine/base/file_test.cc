#include "engine/base/file.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>

#include "absl/strings/str_cat.h"
#include "engine/base/direct_path.h"
#include "engine/base/page_buffer.h"
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

// Five pages and a bit, no two bytes at a distance of a page alike.
std::string FivePages() {
  std::string bytes(5 * kPageBytes + 123, '\0');
  for (size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<char>(i / kPageBytes * 31 + i % 251);
  return bytes;
}

// Writes the file to the disk and takes it out of the page cache, as far as its file system has one apart.
void Evict(const std::string& path) {
  const int fd = open(path.c_str(), O_RDONLY);
  ASSERT_GE(fd, 0);
  ASSERT_EQ(fsync(fd), 0);
  ASSERT_EQ(posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED), 0);
  ASSERT_EQ(close(fd), 0);
}

TEST(File, ReadsOnceWhatItReadsFromCacheAndDisk) {
  const TempDirectory temp;
  const std::string bytes = FivePages();
  temp.Write("a", bytes);
  PageBuffer buffer;
  for (const bool direct : {false, true}) {
    for (const bool cached : {false, true}) {
      absl::StatusOr<File> file = OpenOrDie(temp.path()).OpenFile("a");
      ASSERT_TRUE(file.ok());
      if (direct) file->AllowDirect();
      for (const size_t offset : {size_t{0}, size_t{1}, kPageBytes - 1, kPageBytes, 2 * kPageBytes + 77}) {
        for (const size_t count : {size_t{1}, size_t{3}, kPageBytes, 2 * kPageBytes + 5, bytes.size() - offset}) {
          if (!cached) Evict(temp.File("a"));
          const absl::StatusOr<std::byte*> read = file->ReadOnce(offset, count, &buffer);
          ASSERT_TRUE(read.ok()) << read.status();
          EXPECT_EQ(std::memcmp(*read, bytes.data() + offset, count), 0) << direct << cached << offset << "+" << count;
        }
      }
    }
  }
}

// Bytes that this process had a disk fetch so far.
uint64_t DiskBytes() {
  std::ifstream stream("/proc/self/io");
  std::string word;
  uint64_t bytes = 0;
  while (stream >> word && word != "read_bytes:") continue;
  stream >> bytes;
  return bytes;
}

TEST(File, ReadsOnceFromTheCacheWhereThatHasAll) {
  const TempDirectory temp;
  temp.Write("a", FivePages());
  absl::StatusOr<File> file = OpenOrDie(temp.path()).OpenFile("a");
  ASSERT_TRUE(file.ok());
  file->AllowDirect();
  PageBuffer buffer;
  Evict(temp.File("a"));
  const uint64_t before = DiskBytes();
  ASSERT_TRUE(file->ReadOnce(0, 5 * kPageBytes, &buffer).ok());
  if (DiskBytes() < before + 5 * kPageBytes) GTEST_SKIP() << "no disk below this file, or nobody counts";
  std::array<std::byte, 5 * kPageBytes> bytes;
  ASSERT_TRUE(file->ReadAt(0, bytes).ok());
  const uint64_t cached = DiskBytes();
  ASSERT_TRUE(file->ReadOnce(0, 5 * kPageBytes, &buffer).ok());
  EXPECT_EQ(DiskBytes(), cached);
}

TEST(File, ReadingOnceNoticesThatItWasCutShort) {
  const TempDirectory temp;
  temp.Write("a", FivePages());
  absl::StatusOr<File> file = OpenOrDie(temp.path()).OpenFile("a");
  ASSERT_TRUE(file.ok());
  file->AllowDirect();
  PageBuffer buffer;
  for (const off_t size : {static_cast<off_t>(2 * kPageBytes), static_cast<off_t>(kPageBytes + 7)}) {
    ASSERT_EQ(truncate(temp.File("a").c_str(), size), 0);
    Evict(temp.File("a"));
    const absl::Status status = file->ReadOnce(100, 3 * kPageBytes, &buffer).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss);
    EXPECT_THAT(std::string(status.message()), HasSubstr(absl::StrCat("a: ends at byte ", size)));
    EXPECT_TRUE(file->ReadOnce(0, static_cast<size_t>(size), &buffer).ok());
  }
}

TEST(DirectPath, LeavesThePageCacheAsItIs) {
  const TempDirectory temp;
  const std::string bytes = FivePages();
  temp.Write("a", bytes);
  Evict(temp.File("a"));
  const int fd = open(temp.File("a").c_str(), O_RDONLY);
  ASSERT_GE(fd, 0);
  const DirectPath path(fd, bytes.size());
  if (path.IsCached(0, bytes.size())) GTEST_SKIP() << "this file system has no page cache apart from itself";
  PageBuffer buffer;
  ASSERT_TRUE(buffer.Reserve(6 * kPageBytes));
  if (path.Read(0, buffer.bytes().first(kPageBytes)) == 0) GTEST_SKIP() << "this file system has no direct reads";
  EXPECT_EQ(path.Read(0, buffer.bytes().first(6 * kPageBytes)), bytes.size());
  EXPECT_EQ(std::memcmp(buffer.bytes().data(), bytes.data(), bytes.size()), 0);
  EXPECT_FALSE(path.IsCached(0, 1));

  std::array<std::byte, 1> byte;
  ASSERT_EQ(posix_fadvise(fd, 0, 0, POSIX_FADV_RANDOM), 0);  // no read-ahead
  ASSERT_EQ(pread(fd, byte.data(), 1, static_cast<off_t>(2 * kPageBytes)), 1);
  EXPECT_TRUE(path.IsCached(2 * kPageBytes + 5, kPageBytes - 5));
  EXPECT_FALSE(path.IsCached(2 * kPageBytes, kPageBytes + 1));
  EXPECT_FALSE(path.IsCached(2 * kPageBytes - 1, 2));
  std::string all(bytes.size(), ' ');
  ASSERT_EQ(pread(fd, all.data(), all.size(), 0), static_cast<ssize_t>(all.size()));
  EXPECT_TRUE(path.IsCached(0, bytes.size()));
  EXPECT_TRUE(path.IsCached(kPageBytes - 1, 2));
  close(fd);
}

TEST(DirectPath, OfAnEmptyFileThereIsNothing) {
  const TempDirectory temp;
  temp.Write("a", "");
  absl::StatusOr<File> file = OpenOrDie(temp.path()).OpenFile("a");
  ASSERT_TRUE(file.ok());
  file->AllowDirect();
  PageBuffer buffer;
  EXPECT_TRUE(file->ReadOnce(0, 0, &buffer).ok());
  EXPECT_EQ(file->ReadOnce(0, 1, &buffer).status().code(), absl::StatusCode::kDataLoss);
}

TEST(PageBuffer, StartsOnAPageAndGrows) {
  PageBuffer buffer;
  EXPECT_EQ(buffer.bytes().size(), 0U);
  for (const size_t bytes : {size_t{1}, size_t{5000}, size_t{3} << 20, size_t{100}}) {
    const size_t before = buffer.bytes().size();
    ASSERT_TRUE(buffer.Reserve(bytes));
    EXPECT_GE(buffer.bytes().size(), std::max(bytes, before));
    EXPECT_EQ(reinterpret_cast<uintptr_t>(buffer.bytes().data()) % kPageBytes, 0U);
    std::memset(buffer.bytes().data(), 1, buffer.bytes().size());
  }
  EXPECT_FALSE(PageBuffer().Reserve(SIZE_MAX));
}

}  // namespace
}  // namespace dunlin::engine

// SPDX-License-Identifier: Apache-2.0
#include "engine/base/file.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "engine/base/direct_read.h"
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

// Hugging Face's cache: snapshots/REVISION/NAME -> ../../blobs/HASH.
TEST(Directory, FollowsTheLinksOfASnapshotIntoItsCache) {
  const TempDirectory temp;
  for (const char* folder : {"repo", "repo/blobs", "repo/snapshots", "repo/snapshots/1f", "repo/snapshots/1f/1_Pooling",
                             "other", "other/blobs"}) {
    fs::create_directory(temp.File(folder));
  }
  temp.Write("repo/blobs/abc", "text");
  temp.Write("repo/secret", "secret");
  temp.Write("other/blobs/abc", "secret");
  const std::string snapshot = temp.File("repo/snapshots/1f");
  fs::create_symlink("../../blobs/abc", snapshot + "/config.json");
  fs::create_symlink("../../../blobs/abc", snapshot + "/1_Pooling/config.json");
  fs::create_symlink("../../secret", snapshot + "/beside");
  fs::create_symlink("../../../other/blobs/abc", snapshot + "/foreign");
  fs::create_symlink("../../blobs/../secret", snapshot + "/dots");
  const Directory directory = OpenOrDie(snapshot);
  EXPECT_EQ(directory.ReadFile("config.json", 10).value(), "text");
  EXPECT_EQ(OpenOrDie(snapshot + "/1_Pooling").ReadFile("config.json", 10).value(), "text");
  for (const char* name : {"beside", "foreign", "dots"}) {
    EXPECT_EQ(directory.OpenFile(name).status().code(), absl::StatusCode::kInvalidArgument) << name;
  }
}

TEST(Directory, ACacheWhoseBlobsAreALinkIsNoCache) {
  const TempDirectory outside;
  outside.Write("abc", "secret");
  const TempDirectory temp;
  fs::create_directories(temp.File("repo/snapshots/1f"));
  fs::create_directory_symlink(outside.path(), temp.File("repo/blobs"));
  fs::create_symlink("../../blobs/abc", temp.File("repo/snapshots/1f/config.json"));
  EXPECT_FALSE(OpenOrDie(temp.File("repo/snapshots/1f")).OpenFile("config.json").ok());
}

TEST(Directory, ASiblingWhoseNameStartsAlikeIsOutside) {
  const TempDirectory temp;
  fs::create_directory(temp.File("model"));
  fs::create_directory(temp.File("model2"));
  temp.Write("model2/a", "x");
  fs::create_symlink("../model2/a", temp.File("model/a"));
  EXPECT_FALSE(OpenOrDie(temp.File("model")).OpenFile("a").ok());
}

// The Hub's download cache.
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

// Writes the file to the disk and takes it out of the page cache, as far as its file system has one apart.
void Evict(const std::string& path) {
  const int fd = open(path.c_str(), O_RDONLY);
  ASSERT_GE(fd, 0);
  ASSERT_EQ(fsync(fd), 0);
  ASSERT_EQ(posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED), 0);
  ASSERT_EQ(close(fd), 0);
}

// Reads the whole file into the page cache.
void Warm(const std::string& path) {
  std::ifstream stream(path, std::ios::binary);
  const std::string bytes((std::istreambuf_iterator<char>(stream)), std::istreambuf_iterator<char>());
  ASSERT_FALSE(bytes.empty());
}

// Pages of the file that the page cache has, by the kernel's own list; this process owns the file.
int CachedPages(int fd, size_t bytes) {
  void* mapping = mmap(nullptr, bytes, PROT_NONE, MAP_SHARED, fd, 0);
  std::vector<unsigned char> pages((bytes + kPageBytes - 1) / kPageBytes);
  EXPECT_EQ(mincore(mapping, bytes, pages.data()), 0);
  munmap(mapping, bytes);
  return static_cast<int>(
      std::count_if(pages.begin(), pages.end(), [](unsigned char page) { return (page & 1) != 0; }));
}

// Whether that list is there, which qemu-user has not, and of pages of kPageBytes.
bool ListsPages(int fd) {
  unsigned char page = 0;
  void* mapping = mmap(nullptr, kPageBytes, PROT_NONE, MAP_SHARED, fd, 0);
  const bool lists = mincore(mapping, kPageBytes, &page) == 0;
  munmap(mapping, kPageBytes);
  return lists && sysconf(_SC_PAGESIZE) == static_cast<long>(kPageBytes);
}

// Bytes that disks read for this thread so far.
uint64_t DiskBytes() {
  std::ifstream stream("/proc/thread-self/io");
  std::string word;
  uint64_t bytes = 0;
  while (stream >> word && word != "read_bytes:") continue;
  stream >> bytes;
  return bytes;
}

// A file of the test's own, open, its size no multiple of a page.
class DirectReadTest : public ::testing::Test {
 protected:
  explicit DirectReadTest(size_t pages = 5) : bytes_(pages * kPageBytes + 123, ' ') {
    for (size_t i = 0; i < bytes_.size(); ++i) bytes_[i] = static_cast<char>(i / kPageBytes * 31 + i % 251);
    temp_.Write("a", bytes_);
    fd_ = open(path().c_str(), O_RDONLY);
    EXPECT_GE(fd_, 0);
  }
  ~DirectReadTest() override { close(fd_); }
  std::string path() const { return temp_.File("a"); }

  TempDirectory temp_;
  std::string bytes_;
  int fd_ = -1;
};

// Tests of what comes from where, 4 MB: more than a sample. They make sense where the kernel has a page cache apart
// from the file system, a way past it, reads that do not wait and a count of what disks read. The fixture asks by calls
// of its own, so that direct_read.cc cannot make them skip.
class PageCacheTest : public DirectReadTest {
 protected:
  PageCacheTest() : DirectReadTest(1000) {}

  void SetUp() override {
    if (!ListsPages(fd_)) GTEST_SKIP() << "this system has larger pages, or does not tell which its cache has";
    Evict(path());
    if (CachedPages(fd_, bytes_.size()) != 0) GTEST_SKIP() << "this file system is its own page cache";
    PageBuffer buffer;
    ASSERT_TRUE(buffer.Reserve(kPageBytes));
    const uint64_t before = DiskBytes();
    const int direct_fd = open(path().c_str(), O_RDONLY | O_DIRECT);
    const bool read = direct_fd >= 0 && pread(direct_fd, buffer.bytes().data(), kPageBytes, 0) == kPageBytes;
    if (direct_fd >= 0) close(direct_fd);
    if (!read || CachedPages(fd_, bytes_.size()) != 0) GTEST_SKIP() << "this file system has no direct reads";
    if (DiskBytes() < before + kPageBytes) GTEST_SKIP() << "this kernel does not count what disks read";
    Warm(path());
    const iovec part = {.iov_base = buffer.bytes().data(), .iov_len = 1};
    if (preadv2(fd_, &part, 1, 0, RWF_NOWAIT) != 1) GTEST_SKIP() << "this file system has no reads that do not wait";
    Evict(path());
  }
};

TEST_F(DirectReadTest, ReadOnceGivesWhatTheFileHasFromCacheAndDisk) {
  PageBuffer buffer;
  absl::StatusOr<File> file = OpenOrDie(temp_.path()).OpenFile("a");
  ASSERT_TRUE(file.ok());
  for (const bool cached : {false, true}) {
    for (const size_t offset : {size_t{0}, size_t{1}, kPageBytes - 1, kPageBytes, 2 * kPageBytes + 77}) {
      for (const size_t count : {size_t{1}, size_t{3}, kPageBytes, 2 * kPageBytes + 5, bytes_.size() - offset}) {
        cached ? Warm(path()) : Evict(path());
        const absl::StatusOr<std::byte*> read = file->ReadOnce(offset, count, &buffer);
        ASSERT_TRUE(read.ok()) << read.status();
        EXPECT_EQ(std::memcmp(*read, bytes_.data() + offset, count), 0) << cached << " " << offset << "+" << count;
      }
    }
  }
}

TEST_F(DirectReadTest, ReadOnceNoticesThatTheFileWasCutShort) {
  absl::StatusOr<File> file = OpenOrDie(temp_.path()).OpenFile("a");
  ASSERT_TRUE(file.ok());
  PageBuffer buffer;
  for (const off_t size : {static_cast<off_t>(2 * kPageBytes), static_cast<off_t>(kPageBytes + 7)}) {
    ASSERT_EQ(truncate(path().c_str(), size), 0);
    Evict(path());
    const absl::Status status = file->ReadOnce(100, 3 * kPageBytes, &buffer).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss);
    EXPECT_THAT(std::string(status.message()), HasSubstr(absl::StrCat("a: ends at byte ", size)));
    EXPECT_TRUE(file->ReadOnce(0, static_cast<size_t>(size), &buffer).ok());
  }
}

TEST_F(DirectReadTest, OfAnEmptyFileThereIsNothing) {
  ASSERT_EQ(truncate(path().c_str(), 0), 0);
  const absl::StatusOr<File> file = OpenOrDie(temp_.path()).OpenFile("a");
  ASSERT_TRUE(file.ok());
  PageBuffer buffer;
  EXPECT_TRUE(file->ReadOnce(0, 0, &buffer).ok());
  EXPECT_EQ(file->ReadOnce(0, 1, &buffer).status().code(), absl::StatusCode::kDataLoss);
}

TEST_F(PageCacheTest, ADirectReadLeavesItAsItIs) {
  PageBuffer buffer;
  ASSERT_TRUE(buffer.Reserve(1001 * kPageBytes));
  EXPECT_EQ(ReadDirect(fd_, 0, buffer.bytes().first(1001 * kPageBytes)), bytes_.size());
  EXPECT_EQ(std::memcmp(buffer.bytes().data(), bytes_.data(), bytes_.size()), 0);
  EXPECT_EQ(CachedPages(fd_, bytes_.size()), 0);
}

TEST_F(PageCacheTest, OfAFewPagesItMustHaveEveryOne) {
  ASSERT_EQ(posix_fadvise(fd_, 0, 0, POSIX_FADV_RANDOM), 0);  // no read-ahead
  std::array<std::byte, 1> byte;
  const auto only_page_2 = [&] {
    Evict(path());
    ASSERT_EQ(pread(fd_, byte.data(), 1, static_cast<off_t>(2 * kPageBytes)), 1);
  };
  only_page_2();
  EXPECT_TRUE(IsCached(fd_, 2 * kPageBytes + 5, kPageBytes - 5));
  EXPECT_FALSE(IsCached(fd_, 2 * kPageBytes, kPageBytes + 1));
  only_page_2();
  EXPECT_FALSE(IsCached(fd_, 2 * kPageBytes - 1, 2));
  Evict(path());
  EXPECT_FALSE(IsCached(fd_, 0, 5 * kPageBytes));
  std::this_thread::sleep_for(std::chrono::milliseconds(100));  // what the disk was asked for comes meanwhile
  EXPECT_LE(CachedPages(fd_, bytes_.size()), 1);
  Warm(path());
  EXPECT_TRUE(IsCached(fd_, 0, 5 * kPageBytes));
  EXPECT_FALSE(IsCached(fd_, bytes_.size() - 1, 2));  // past the end
}

TEST_F(PageCacheTest, ASampleTellsAndHardlyFillsIt) {
  EXPECT_FALSE(IsCached(fd_, 0, bytes_.size()));
  EXPECT_FALSE(IsCached(fd_, 0, bytes_.size()));                // not the same pages again
  std::this_thread::sleep_for(std::chrono::milliseconds(100));  // what the disk was asked for comes meanwhile
  EXPECT_LE(CachedPages(fd_, bytes_.size()), 2);
  Warm(path());
  EXPECT_TRUE(IsCached(fd_, 0, bytes_.size()));
}

TEST_F(PageCacheTest, WhatAnotherThreadReadsIsNoMiss) {
  temp_.Write("b", bytes_);
  Evict(temp_.File("b"));
  Warm(path());
  std::atomic<bool> stop = false;
  std::thread reader([&] {
    PageBuffer buffer;
    const int fd = open(temp_.File("b").c_str(), O_RDONLY);
    if (buffer.Reserve(16 * kPageBytes)) {
      while (!stop) ReadDirect(fd, 0, buffer.bytes().first(16 * kPageBytes));
    }
    close(fd);
  });
  for (int i = 0; i < 100; ++i) {
    EXPECT_TRUE(IsCached(fd_, 0, bytes_.size()));
    std::this_thread::yield();
  }
  stop = true;
  reader.join();
}

TEST_F(PageCacheTest, ReadOnceGoesPastItUnlessItHasTheBytes) {
  const absl::StatusOr<File> file = OpenOrDie(temp_.path()).OpenFile("a");
  ASSERT_TRUE(file.ok());
  PageBuffer buffer;
  const uint64_t before = DiskBytes();
  ASSERT_TRUE(file->ReadOnce(0, bytes_.size(), &buffer).ok());
  EXPECT_LE(CachedPages(fd_, bytes_.size()), 1);
  EXPECT_GE(DiskBytes() - before, bytes_.size());
  Warm(path());
  const uint64_t warm = DiskBytes();
  ASSERT_TRUE(file->ReadOnce(0, bytes_.size(), &buffer).ok());
  EXPECT_LT(DiskBytes() - warm, bytes_.size() / 2);  // a part of this program may have come meanwhile
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

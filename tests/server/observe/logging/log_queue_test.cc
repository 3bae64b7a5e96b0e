// SPDX-License-Identifier: Apache-2.0
// Logging into a pipe that nobody reads: nothing waits, what does not fit is dropped and counted, and said later.
#include "server/observe/logging/log_queue.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <spdlog/spdlog.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <memory>
#include <regex>
#include <string>

#include "server/observe/logging/logging.h"

namespace dunlin::server {
namespace {

const size_t kPipeBytes = static_cast<size_t>(sysconf(_SC_PAGESIZE));  // the smallest that Linux makes
constexpr size_t kMaxBytes = 8192;

class Pipe {
 public:
  Pipe() {
    std::signal(SIGPIPE, SIG_IGN);  // a queue may outlive the test, in a write
    EXPECT_EQ(pipe2(ends_, O_CLOEXEC), 0);
    EXPECT_EQ(fcntl(ends_[0], F_SETFL, O_NONBLOCK), 0);
    EXPECT_EQ(fcntl(ends_[1], F_SETPIPE_SZ, kPipeBytes), static_cast<int>(kPipeBytes));
  }
  ~Pipe() {
    close(ends_[0]);
    close(ends_[1]);
  }
  int writer() const { return ends_[1]; }
  // Everything that the queue holds.
  std::string Drain(LogQueue* queue) const {
    std::string text;
    char buffer[1024];
    while (true) {
      const bool written = queue->Flush(absl::Milliseconds(1));
      const ssize_t got = read(ends_[0], buffer, sizeof(buffer));
      if (got > 0) text.append(buffer, static_cast<size_t>(got));
      if (got <= 0 && written) return text;
    }
  }

 private:
  int ends_[2] = {-1, -1};
};

TEST(LogQueue, WritesInOrder) {
  const Pipe pipe;
  LogQueue queue(pipe.writer(), kMaxBytes);
  EXPECT_TRUE(queue.Push("one\n"));
  EXPECT_TRUE(queue.Push("two\n"));
  EXPECT_EQ(pipe.Drain(&queue), "one\ntwo\n");
  EXPECT_EQ(queue.losses().dropped, 0U);
}

TEST(LogQueue, NeverWaitsForAReaderAndCountsWhatItDrops) {
  const Pipe pipe;
  LogQueue queue(pipe.writer(), kMaxBytes);
  const std::string line(127, 'x');
  uint64_t dropped = 0;
  for (int i = 0; i < 1000; ++i) dropped += queue.Push(line + "\n") ? 0 : 1;  // 16 times what fits
  EXPECT_GE(dropped, 1000 - (kPipeBytes + 2 * kMaxBytes) / 128);
  EXPECT_EQ(queue.losses().dropped, dropped);
  EXPECT_FALSE(queue.Flush(absl::Milliseconds(1)));
}

TEST(LogQueue, AClosedPipeLosesLinesAndNothingElse) {
  std::signal(SIGPIPE, SIG_IGN);
  int ends[2] = {-1, -1};
  ASSERT_EQ(pipe2(ends, O_CLOEXEC), 0);
  close(ends[0]);
  LogQueue queue(ends[1], kMaxBytes);
  for (uint64_t i = 1; i <= 10; ++i) {
    EXPECT_TRUE(queue.Push("lost\n"));
    EXPECT_TRUE(queue.Flush(absl::Seconds(10)));
    EXPECT_EQ(queue.losses().unwritten, i);
    EXPECT_EQ(queue.losses().error, EPIPE);
  }
  close(ends[1]);
}

// A descriptor whose writes fail as on a full disk, until there is room again.
class FullDisk {
 public:
  FullDisk() : descriptor_(open("/dev/full", O_WRONLY | O_CLOEXEC)), disk_(std::tmpfile()) {
    EXPECT_GE(descriptor_, 0);
  }
  ~FullDisk() {
    std::fclose(disk_);
    close(descriptor_);
  }
  int descriptor() const { return descriptor_; }
  void MakeRoom() const { EXPECT_EQ(dup2(fileno(disk_), descriptor_), descriptor_); }
  std::string text() const {
    std::rewind(disk_);
    std::string text(65536, '\0');
    text.resize(std::fread(text.data(), 1, text.size(), disk_));
    return text;
  }

 private:
  const int descriptor_;
  std::FILE* const disk_;
};

TEST(LogQueue, LinesThatAFullDiskTakesNotAreCountedAndToldOfOnceItTakesSome) {
  for (const char* format : {"text", "json"}) {
    const FullDisk disk;
    LogQueue queue(disk.descriptor(), kMaxBytes);
    const std::shared_ptr<spdlog::logger> logger = MakeLogger(&queue, "info", format);
    for (uint64_t i = 1; i <= 3; ++i) {
      logger->info("lost");
      EXPECT_TRUE(queue.Flush(absl::Seconds(10)));
      EXPECT_EQ(queue.losses().unwritten, i) << "a line that tells of losses would be one of them";
    }
    EXPECT_EQ(queue.losses().error, ENOSPC);
    disk.MakeRoom();
    logger->info("first that is written");
    EXPECT_TRUE(queue.Flush(absl::Seconds(10)));
    logger->info("second");
    EXPECT_TRUE(queue.Flush(absl::Seconds(10)));
    logger->info("third");
    EXPECT_TRUE(queue.Flush(absl::Seconds(10)));
    const std::string text = disk.text();
    const std::string notice = "3 log lines lost: stderr could not be written: No space left on device";
    EXPECT_LT(text.find("first"), text.find(notice)) << text;
    EXPECT_LT(text.find(notice), text.find("second")) << text;
    EXPECT_EQ(text.find(notice), text.rfind(notice)) << "once: " << text;
    EXPECT_EQ(queue.losses().unwritten, 3U);
    EXPECT_EQ(queue.losses().dropped, 0U);
  }
}

// A file that may not grow beyond 10 bytes takes one line and a half.
TEST(LogQueue, ALineThatIsCutIsLostAndTheNextOneStandsAlone) {
  std::signal(SIGXFSZ, SIG_IGN);
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> file(std::tmpfile(), &std::fclose);
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &before), 0);
  const rlimit small{10, before.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &small), 0);
  LogQueue queue(fileno(file.get()), kMaxBytes);
  queue.Push("short\nis cut\nis lost\n");
  EXPECT_TRUE(queue.Flush(absl::Seconds(10)));
  EXPECT_EQ(queue.losses().unwritten, 2U);
  EXPECT_EQ(queue.losses().error, EFBIG);
  queue.Push("is lost too\n");
  EXPECT_TRUE(queue.Flush(absl::Seconds(10)));
  EXPECT_EQ(queue.losses().unwritten, 3U);
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &before), 0);
  queue.Push("whole\n");
  EXPECT_TRUE(queue.Flush(absl::Seconds(10)));
  EXPECT_TRUE(queue.losses().writable);
  std::rewind(file.get());
  char text[64];
  EXPECT_EQ(std::string(text, std::fread(text, 1, sizeof(text), file.get())), "short\nis c\nwhole\n");
}

// The sum over all lines that say how many were dropped.
uint64_t Reported(const std::string& text) {
  static const std::regex notice("(\\d+) log lines dropped: stderr is not read fast enough");
  uint64_t sum = 0;
  for (std::sregex_iterator it(text.begin(), text.end(), notice); it != std::sregex_iterator(); ++it) {
    sum += std::stoull((*it)[1]);
  }
  return sum;
}

TEST(LogQueue, LaterLinesSayHowManyWereDropped) {
  const Pipe pipe;
  LogQueue queue(pipe.writer(), kMaxBytes);
  for (const char* format : {"text", "json"}) {
    const std::shared_ptr<spdlog::logger> logger = MakeLogger(&queue, "info", format);
    const uint64_t before = queue.losses().dropped;
    for (int i = 0; i < 1000; ++i) logger->info("line {} {}", i, std::string(100, 'x'));
    const uint64_t dropped = queue.losses().dropped - before;
    EXPECT_GE(dropped, 500U);
    std::string text = pipe.Drain(&queue);
    logger->info("room again");
    text += pipe.Drain(&queue);
    EXPECT_EQ(Reported(text), dropped) << text;
    EXPECT_LT(text.rfind("log lines dropped"), text.find("room again")) << "where the gap is";
    logger->info("once");
    EXPECT_EQ(Reported(pipe.Drain(&queue)), 0U);
  }
}

}  // namespace
}  // namespace dunlin::server

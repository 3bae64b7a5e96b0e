// SPDX-License-Identifier: Apache-2.0
// Logging into a pipe that nobody reads: nothing waits, what does not fit is dropped and counted, and said later.
#include "server/process/log_queue.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <spdlog/spdlog.h>
#include <unistd.h>

#include <csignal>
#include <memory>
#include <regex>
#include <string>

#include "server/process/logging.h"

namespace dunlin::server {
namespace {

constexpr size_t kPipeBytes = 4096;  // the smallest that Linux makes
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
  EXPECT_EQ(queue.num_dropped(), 0U);
}

TEST(LogQueue, NeverWaitsForAReaderAndCountsWhatItDrops) {
  const Pipe pipe;
  LogQueue queue(pipe.writer(), kMaxBytes);
  const std::string line(127, 'x');
  uint64_t dropped = 0;
  for (int i = 0; i < 1000; ++i) dropped += queue.Push(line + "\n") ? 0 : 1;  // 16 times what fits
  EXPECT_GE(dropped, 1000 - (kPipeBytes + 2 * kMaxBytes) / 128);
  EXPECT_EQ(queue.num_dropped(), dropped);
  EXPECT_FALSE(queue.Flush(absl::Milliseconds(1)));
}

TEST(LogQueue, AClosedPipeLosesLinesAndNothingElse) {
  std::signal(SIGPIPE, SIG_IGN);
  int ends[2] = {-1, -1};
  ASSERT_EQ(pipe2(ends, O_CLOEXEC), 0);
  close(ends[0]);
  LogQueue queue(ends[1], kMaxBytes);
  for (int i = 0; i < 10; ++i) {
    EXPECT_TRUE(queue.Push("lost\n"));
    EXPECT_TRUE(queue.Flush(absl::Seconds(10)));
  }
  close(ends[1]);
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
    const uint64_t before = queue.num_dropped();
    for (int i = 0; i < 1000; ++i) logger->info("line {} {}", i, std::string(100, 'x'));
    const uint64_t dropped = queue.num_dropped() - before;
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

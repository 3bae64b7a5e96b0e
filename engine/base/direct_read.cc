// SPDX-License-Identifier: Apache-2.0
#include "engine/base/direct_read.h"

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/uio.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <random>
#include <string>

#include "engine/base/page_buffer.h"

namespace dunlin::engine {
namespace {

constexpr size_t kSamples = 8;  // of a range: with one page in a thousand cached, all hit once in 10^24

// A second open file description with flags of its own: those of `fd` are shared by all its readers.
class Reopened {
 public:
  Reopened(int fd, int flags)
      : fd_(open(("/proc/self/fd/" + std::to_string(fd)).c_str(), O_RDONLY | O_CLOEXEC | flags)) {}
  ~Reopened() {
    if (fd_ >= 0) close(fd_);
  }
  Reopened(const Reopened&) = delete;
  Reopened& operator=(const Reopened&) = delete;
  int fd() const { return fd_; }

 private:
  int fd_;
};

// Blocks read from disks for this thread so far; 0 where the kernel does not count them.
int64_t DiskBlocks() {
  rusage usage{};
  return getrusage(RUSAGE_THREAD, &usage) == 0 ? usage.ru_inblock : 0;
}

// A miss starts a read, and a fast disk may still return the byte, so the count of blocks decides.
bool HasByte(int fd, uint64_t offset) {
  std::byte byte;
  const iovec part = {.iov_base = &byte, .iov_len = 1};
  const int64_t blocks = DiskBlocks();
  return preadv2(fd, &part, 1, static_cast<off_t>(offset), RWF_NOWAIT) == 1 && DiskBlocks() == blocks;
}

}  // namespace

bool IsCached(int fd, uint64_t offset, size_t bytes) {
  if (bytes == 0) return true;
  const Reopened file(fd, 0);
  // Without read-ahead, which non-blocking reads start too (Linux 6, mm/filemap.c).
  if (file.fd() < 0 || posix_fadvise(file.fd(), 0, 0, POSIX_FADV_RANDOM) != 0) return false;
  const uint64_t last = offset + bytes - 1;
  if (bytes <= kSamples * kPageBytes) {
    for (uint64_t at = offset; at < last; at += kPageBytes) {
      if (!HasByte(file.fd(), at)) return false;
    }
    return HasByte(file.fd(), last);
  }
  std::mt19937_64 random(static_cast<uint64_t>(std::chrono::steady_clock::now().time_since_epoch().count()));
  std::uniform_int_distribution<uint64_t> place(offset, last);
  for (size_t i = 0; i < kSamples; ++i) {
    if (!HasByte(file.fd(), place(random))) return false;
  }
  return true;
}

size_t ReadDirect(int fd, uint64_t offset, std::span<std::byte> out) {
  const Reopened file(fd, O_DIRECT);
  size_t done = 0;
  // One call reads less than 2 GiB, in whole pages; it ends inside a page only at the end of the file.
  while (file.fd() >= 0 && done < out.size() && done % kPageBytes == 0) {
    const ssize_t count = pread(file.fd(), out.data() + done, out.size() - done, static_cast<off_t>(offset + done));
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) break;
    done += static_cast<size_t>(count);
  }
  return done;
}

}  // namespace dunlin::engine

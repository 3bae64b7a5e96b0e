#include "engine/base/direct_path.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <string>
#include <vector>

#include "engine/base/page_buffer.h"

namespace dunlin::engine {
namespace {

constexpr size_t kReadBytes = size_t{1} << 30;  // below the 2 GiB that one pread moves at most

// Where this is false, mincore says of every page that it is there (Linux 5.2, mm/mincore.c).
bool MayAskForPages(int fd) {
  struct stat info {};
  if (fstat(fd, &info) != 0) return false;
  return geteuid() == 0 || geteuid() == info.st_uid || faccessat(fd, "", W_OK, AT_EMPTY_PATH | AT_EACCESS) == 0;
}

}  // namespace

DirectPath::DirectPath(int fd, uint64_t size) {
  // The same inode, by the kernel's own link: O_DIRECT of `fd` would hold for all who read by it.
  fd_ = open(("/proc/self/fd/" + std::to_string(fd)).c_str(), O_RDONLY | O_DIRECT | O_CLOEXEC);
  const auto page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  if (fd_ < 0 || size == 0 || size > SIZE_MAX - page || !MayAskForPages(fd)) return;
  const size_t bytes = (static_cast<size_t>(size) + page - 1) / page * page;
  void* mapping = mmap(nullptr, bytes, PROT_NONE, MAP_SHARED, fd, 0);
  if (mapping == MAP_FAILED) return;
  mapping_ = mapping;
  mapping_bytes_ = bytes;
}

DirectPath::~DirectPath() {
  if (mapping_ != nullptr) munmap(mapping_, mapping_bytes_);
  if (fd_ >= 0) close(fd_);
}

bool DirectPath::IsCached(uint64_t offset, size_t bytes) const {
  if (mapping_ == nullptr || bytes == 0 || offset >= mapping_bytes_) return false;
  const auto page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  const size_t begin = static_cast<size_t>(offset) / page * page;
  const size_t end = static_cast<size_t>(offset) + std::min(bytes, mapping_bytes_ - static_cast<size_t>(offset));
  std::vector<unsigned char> pages((end - begin + page - 1) / page);
  if (mincore(static_cast<char*>(mapping_) + begin, end - begin, pages.data()) != 0) return false;
  return std::all_of(pages.begin(), pages.end(), [](unsigned char is_there) { return (is_there & 1) != 0; });
}

size_t DirectPath::Read(uint64_t offset, std::span<std::byte> out) const {
  size_t done = 0;
  while (fd_ >= 0 && done < out.size() && done % kPageBytes == 0) {  // it ends inside a page at the file's end alone
    const size_t part = std::min(out.size() - done, kReadBytes);
    const ssize_t count = pread(fd_, out.data() + done, part, static_cast<off_t>(offset + done));
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) break;
    done += static_cast<size_t>(count);
  }
  return done;
}

}  // namespace dunlin::engine

// The way to a file's bytes past the page cache (O_DIRECT): memory is filled once, by the disk itself, and the cache
// keeps what others use. And the question whether the cache has them already. Thread rule: const functions from any
// thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace dunlin::engine {

class DirectPath {
 public:
  // Of the regular file of `size` bytes that is open as `fd`, which stays the caller's.
  DirectPath(int fd, uint64_t size);
  ~DirectPath();
  DirectPath(const DirectPath&) = delete;
  DirectPath& operator=(const DirectPath&) = delete;

  // Whether the page cache has all of [offset, offset + bytes). False where the system does not tell: it tells the
  // file's owner, and who may write it.
  bool IsCached(uint64_t offset, size_t bytes) const;
  // Fills the front of `out` and returns how far: less than all of it at the file's end, on an error, and where the
  // file system has no such way. REQUIRES: offset, out.data() and out.size() are multiples of kPageBytes.
  size_t Read(uint64_t offset, std::span<std::byte> out) const;

 private:
  int fd_ = -1;               // a description of its own, with O_DIRECT; -1: there is no such way
  void* mapping_ = nullptr;   // of the whole file, to ask about and never to read: reading could end in SIGBUS
  size_t mapping_bytes_ = 0;  // of whole pages
};

}  // namespace dunlin::engine

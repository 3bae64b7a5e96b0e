// Memory that starts on a page, as reads past the page cache need it, in large pages where the system has them: one of
// 16 MiB is then a few runs of memory for the disk, not thousands.
#pragma once

#include <cstddef>
#include <cstdlib>
#include <memory>
#include <span>

namespace dunlin::engine {

inline constexpr size_t kPageBytes = 4096;  // of which most disks' blocks are a part

class PageBuffer {
 public:
  // Makes room for `bytes`; where that takes other memory, what was inside is lost. False when there is none.
  bool Reserve(size_t bytes);
  std::span<std::byte> bytes() const { return {memory_.get(), size_}; }

 private:
  std::unique_ptr<std::byte, decltype(&std::free)> memory_{nullptr, &std::free};
  size_t size_ = 0;
};

}  // namespace dunlin::engine

// SPDX-License-Identifier: Apache-2.0
#include "tools/bench/cache_size.h"

#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <fstream>
#include <map>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"

namespace dunlin::tools::bench {
namespace {

// The first line of a file; "" if it cannot be read.
std::string FirstLine(const std::string& path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

// Parses "32768K" and the like; 0 for anything else.
size_t BytesOf(const std::string& text) {
  absl::string_view number = text;
  size_t unit = 1;
  if (absl::ConsumeSuffix(&number, "K")) unit = size_t{1} << 10;
  if (absl::ConsumeSuffix(&number, "M")) unit = size_t{1} << 20;
  uint64_t count = 0;
  return absl::SimpleAtoi(number, &count) && count < (uint64_t{1} << 32) ? static_cast<size_t>(count) * unit : 0;
}

}  // namespace

size_t LastLevelCacheBytes(const std::string& root) {
  constexpr int kIndicesMax = 8;
  cpu_set_t usable;
  CPU_ZERO(&usable);
  if (sched_getaffinity(0, sizeof(usable), &usable) != 0) CPU_SET(0, &usable);
  std::map<std::string, size_t> caches;  // by the processors that share one
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
    if (!CPU_ISSET(cpu, &usable)) continue;
    int highest = 0;
    std::pair<std::string, size_t> last;
    for (int index = 0; index < kIndicesMax; ++index) {
      const std::string cache = absl::StrCat(root, "/sys/devices/system/cpu/cpu", cpu, "/cache/index", index, "/");
      int level = 0;
      if (!absl::SimpleAtoi(FirstLine(cache + "level"), &level) || level <= highest) continue;
      highest = level;
      last = {FirstLine(cache + "shared_cpu_list"), BytesOf(FirstLine(cache + "size"))};
    }
    if (highest > 0) caches.insert(last);
  }
  size_t bytes = 0;
  for (const auto& [cpus, size] : caches) bytes += size;
  if (bytes == 0) bytes = static_cast<size_t>(std::max(sysconf(_SC_LEVEL3_CACHE_SIZE), 0L));
  return bytes;
}

}  // namespace dunlin::tools::bench

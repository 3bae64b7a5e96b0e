// SPDX-License-Identifier: Apache-2.0
#include "server/models/memory_limit.h"

#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <fstream>
#include <initializer_list>
#include <string_view>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

namespace dunlin::server {
namespace {

// A control group file system: where it is mounted, and its files.
struct GroupFiles {
  const char* mount;
  std::initializer_list<const char*> limits;  // each may say "max", or in version 1 a number beyond any memory
  const char* usage;
  std::initializer_list<std::string_view> file_pages;  // rows of memory.stat that the kernel can take back
};
const GroupFiles kVersion2 = {
    "/sys/fs/cgroup", {"memory.max", "memory.high"}, "memory.current", {"inactive_file", "active_file"}};
const GroupFiles kHybrid = {"/sys/fs/cgroup/unified", kVersion2.limits, kVersion2.usage, kVersion2.file_pages};
const GroupFiles kVersion1 = {"/sys/fs/cgroup/memory",
                              {"memory.limit_in_bytes"},
                              "memory.usage_in_bytes",
                              {"total_inactive_file", "total_active_file"}};

constexpr uint64_t kUnlimited = uint64_t{1} << 60;  // version 1 writes 2^63 rounded down to a page

// The number that a file begins with; kUnlimited where there is none.
uint64_t ReadNumber(const std::string& path) {
  std::ifstream file(path);
  std::string word;
  uint64_t value = 0;
  return file >> word && absl::SimpleAtoi(word, &value) ? value : kUnlimited;
}

// The sum of the named rows of a file of "name value" lines. found: whether there was any.
uint64_t SumRows(const std::string& path, std::initializer_list<std::string_view> names, bool* found) {
  std::ifstream file(path);
  uint64_t sum = 0;
  for (std::string line; std::getline(file, line);) {
    const size_t end = line.find_first_of(": ");
    const size_t begin = end == std::string::npos ? end : line.find_first_not_of(": ", end);
    if (begin == std::string::npos) continue;
    const std::string_view name = std::string_view(line).substr(0, end);
    if (std::find(names.begin(), names.end(), name) == names.end()) continue;
    uint64_t value = 0;
    const std::string text = line.substr(begin, line.find(' ', begin) - begin);
    if (!absl::SimpleAtoi(text, &value)) continue;
    sum += value;
    *found = true;
  }
  return sum;
}

void TakeSmaller(uint64_t bytes, const std::string& source, MemoryLimit* limit) {
  if (bytes >= kUnlimited || (limit->bytes != 0 && bytes >= limit->bytes)) return;
  *limit = {static_cast<size_t>(std::max<uint64_t>(bytes, 1)), source};
}

// One group: its limit, without what others in it hold.
void ReadGroup(const std::string& root, const GroupFiles& files, const std::string& path, uint64_t own,
               MemoryLimit* limit) {
  const std::string group = absl::StrCat(root, files.mount, path, "/");
  uint64_t bytes = kUnlimited;
  for (const char* name : files.limits) bytes = std::min(bytes, ReadNumber(group + name));
  if (bytes >= kUnlimited) return;
  const uint64_t usage = ReadNumber(group + files.usage);
  bool found = false;
  const uint64_t kept = own + SumRows(group + "memory.stat", files.file_pages, &found);
  const uint64_t others = usage >= kUnlimited || usage < kept ? 0 : usage - kept;
  TakeSmaller(bytes - std::min(bytes, others), absl::StrCat("cgroup ", files.mount, path), limit);
}

// The group and its parents. Inside a container the path often does not exist under the mount: then only the root is
// found, which is where the container's own limit is visible.
void ReadUpwards(const std::string& root, const GroupFiles& files, std::string path, uint64_t own, MemoryLimit* limit) {
  while (!path.empty() && path != "/") {
    ReadGroup(root, files, path, own, limit);
    path.erase(path.find_last_of('/'));
  }
  ReadGroup(root, files, "", own, limit);
}

bool HasMemoryController(const std::string& controllers) {
  const std::vector<std::string> names = absl::StrSplit(controllers, ',');
  return std::find(names.begin(), names.end(), "memory") != names.end();
}

// Without /proc/meminfo, which a service may be denied, all of the machine's memory counts as available.
uint64_t MachineBytes(const std::string& root, uint64_t own) {
  bool found = false;
  const uint64_t available = SumRows(root + "/proc/meminfo", {"MemAvailable"}, &found) * 1024;
  if (found) return available + own;
  if (!root.empty()) return kUnlimited;
  return static_cast<uint64_t>(sysconf(_SC_PHYS_PAGES)) * static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
}

// What /proc/self/statm counts, in pages of the machine.
struct MappedPages {
  uint64_t all = 0;
  uint64_t resident = 0;
  uint64_t data = 0;  // private and writable, with the first stack
};

MappedPages ReadMappedPages(const std::string& root) {
  std::ifstream file(root + "/proc/self/statm");
  MappedPages pages;
  uint64_t shared = 0;
  uint64_t text = 0;
  uint64_t unused = 0;
  file >> pages.all >> pages.resident >> shared >> text >> unused >> pages.data;
  return pages;
}

// The soft limit of a row of /proc/self/limits, in bytes.
uint64_t SoftLimit(const std::string& root, std::string_view row) {
  std::ifstream file(root + "/proc/self/limits");
  for (std::string line; std::getline(file, line);) {
    if (!std::string_view(line).starts_with(row)) continue;
    const std::vector<std::string> words = absl::StrSplit(line.substr(row.size()), ' ', absl::SkipEmpty());
    uint64_t bytes = 0;
    return !words.empty() && absl::SimpleAtoi(words.front(), &bytes) ? bytes : kUnlimited;
  }
  return kUnlimited;
}

}  // namespace

MemoryLimit FindMemoryLimit(const std::string& root) {
  const uint64_t own = ResidentMemory(root);
  MemoryLimit limit;
  TakeSmaller(MachineBytes(root, own), "the machine", &limit);
  std::ifstream groups(root + "/proc/self/cgroup");
  for (std::string line; std::getline(groups, line);) {  // "id:controllers:path"
    const std::vector<std::string> parts = absl::StrSplit(line, absl::MaxSplits(':', 2));
    if (parts.size() != 3) continue;
    if (parts[1].empty()) {
      ReadUpwards(root, kVersion2, parts[2], own, &limit);
      ReadUpwards(root, kHybrid, parts[2], own, &limit);
    } else if (HasMemoryController(parts[1])) {
      ReadUpwards(root, kVersion1, parts[2], own, &limit);
    }
  }
  return limit;
}

MemoryLimit FindMappedLimit(const std::string& root) {
  const MappedPages pages = ReadMappedPages(root);
  const auto page_bytes = static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
  MemoryLimit limit;
  const auto take = [&](std::string_view row, const char* source, uint64_t mapped) {
    const uint64_t bytes = SoftLimit(root, row);
    if (bytes >= kUnlimited) return;
    TakeSmaller(bytes - std::min(bytes, mapped * page_bytes) + pages.resident * page_bytes, source, &limit);
  };
  take("Max address space", "ulimit -v", pages.all);
  take("Max data size", "ulimit -d", pages.data);
  return limit;
}

int CountThreads(const std::string& root) {
  bool found = false;
  return static_cast<int>(SumRows(root + "/proc/self/status", {"Threads"}, &found));
}

size_t ResidentMemory(const std::string& root) {
  return static_cast<size_t>(ReadMappedPages(root).resident) * static_cast<size_t>(sysconf(_SC_PAGESIZE));
}

size_t MemoryLeft(const std::string& root) {
  const size_t limit = FindMemoryLimit(root).bytes;
  return limit == 0 ? SIZE_MAX : limit - std::min(limit, ResidentMemory(root));
}

}  // namespace dunlin::server

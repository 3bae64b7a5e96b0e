// SPDX-License-Identifier: Apache-2.0
#include "engine/model/checkpoint/torch/zip_entries.h"

#include <algorithm>
#include <span>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "engine/base/checked_math.h"

namespace dunlin::engine {
namespace {

constexpr uint64_t kEndBytes = 22;
constexpr uint64_t kMaxCommentBytes = 65535;
constexpr uint64_t kEnd64Bytes = 56;
constexpr uint64_t kLocator64Bytes = 20;
constexpr uint64_t kEntryBytes = 46;
constexpr uint64_t kLocalBytes = 30;
constexpr uint32_t kEndMark = 0x06054B50;
constexpr uint32_t kEnd64Mark = 0x06064B50;
constexpr uint32_t kLocator64Mark = 0x07064B50;
constexpr uint32_t kEntryMark = 0x02014B50;
constexpr uint32_t kLocalMark = 0x04034B50;
constexpr uint64_t kIn64 = 0xFFFFFFFF;  // the value is in the zip64 field

using Bytes = std::vector<std::byte>;

uint64_t Number(std::span<const std::byte> bytes, uint64_t at, size_t size) {
  uint64_t value = 0;
  for (size_t i = size; i-- > 0;) value = value << 8 | std::to_integer<uint64_t>(bytes[at + i]);
  return value;
}

absl::StatusOr<Bytes> ReadRange(const File& file, CheckedU64 begin, uint64_t size) {
  const CheckedU64 end = begin + CheckedU64(size);
  if (!end.ok() || end.value() > file.size())
    return absl::InvalidArgumentError("its zip directory lies outside the file: it is cut short");
  Bytes bytes(size);
  if (absl::Status read = file.ReadAt(begin.value(), bytes); !read.ok()) return read;
  return bytes;
}

struct DirectoryPlace {
  uint64_t offset;
  uint64_t bytes;
  uint64_t entries;
};

absl::StatusOr<DirectoryPlace> FindDirectory64(const File& file, uint64_t end_offset) {
  if (end_offset < kLocator64Bytes) return absl::InvalidArgumentError("its zip directory is cut short");
  const absl::StatusOr<Bytes> locator = ReadRange(file, end_offset - kLocator64Bytes, kLocator64Bytes);
  if (!locator.ok()) return locator.status();
  if (Number(*locator, 0, 4) != kLocator64Mark) return absl::InvalidArgumentError("its zip64 directory is missing");
  const absl::StatusOr<Bytes> end = ReadRange(file, Number(*locator, 8, 8), kEnd64Bytes);
  if (!end.ok()) return end.status();
  if (Number(*end, 0, 4) != kEnd64Mark) return absl::InvalidArgumentError("its zip64 directory is missing");
  return DirectoryPlace{Number(*end, 48, 8), Number(*end, 40, 8), Number(*end, 32, 8)};
}

absl::StatusOr<DirectoryPlace> FindDirectory(const File& file) {
  if (file.size() < kEndBytes) return absl::InvalidArgumentError("is no file of torch.save: it is no zip archive");
  const uint64_t tail = std::min(file.size(), kEndBytes + kMaxCommentBytes);
  const absl::StatusOr<Bytes> bytes = ReadRange(file, file.size() - tail, tail);
  if (!bytes.ok()) return bytes.status();
  for (uint64_t at = tail - kEndBytes + 1; at-- > 0;) {
    if (Number(*bytes, at, 4) != kEndMark) continue;
    const DirectoryPlace place{Number(*bytes, at + 16, 4), Number(*bytes, at + 12, 4), Number(*bytes, at + 10, 2)};
    const bool in_64 = place.offset == kIn64 || place.bytes == kIn64 || place.entries == 0xFFFF;
    return in_64 ? FindDirectory64(file, file.size() - tail + at) : absl::StatusOr<DirectoryPlace>(place);
  }
  return absl::InvalidArgumentError("is no file of torch.save since 1.6: it is no zip archive, or it is cut short");
}

// Replaces what the 32-bit fields refer to the zip64 field for: sizes and offset, in this order, as far as needed.
bool ReadExtra64(std::span<const std::byte> extra, uint64_t packed_bytes, ZipEntry* entry) {
  for (uint64_t at = 0; at + 4 <= extra.size();) {
    const uint64_t id = Number(extra, at, 2);
    const uint64_t size = Number(extra, at + 2, 2);
    if (size > extra.size() - at - 4) return false;
    if (id == 1) {
      uint64_t next = at + 4;
      const auto take = [&](uint64_t* value) {
        if (next + 8 > at + 4 + size) return false;
        *value = Number(extra, next, 8);
        next += 8;
        return true;
      };
      uint64_t ignored = 0;
      if (entry->bytes == kIn64 && !take(&entry->bytes)) return false;
      if (packed_bytes == kIn64 && !take(&ignored)) return false;
      return entry->header_offset != kIn64 || take(&entry->header_offset);
    }
    at += 4 + size;
  }
  return entry->bytes != kIn64 && entry->header_offset != kIn64;
}

}  // namespace

absl::StatusOr<std::map<std::string, ZipEntry, std::less<>>> ListZipEntries(const File& file) {
  const absl::StatusOr<DirectoryPlace> place = FindDirectory(file);
  if (!place.ok()) return place.status();
  if (place->bytes > kMaxZipDirectoryBytes || place->entries > kMaxZipEntries) {
    return absl::InvalidArgumentError(absl::StrCat("its zip directory has ", place->entries, " entries in ",
                                                   place->bytes, " bytes; limits are ", kMaxZipEntries, " and ",
                                                   kMaxZipDirectoryBytes));
  }
  const absl::StatusOr<Bytes> directory = ReadRange(file, place->offset, place->bytes);
  if (!directory.ok()) return directory.status();
  const std::span<const std::byte> bytes(*directory);
  std::map<std::string, ZipEntry, std::less<>> entries;
  uint64_t at = 0;
  for (uint64_t i = 0; i < place->entries; ++i) {
    if (bytes.size() - at < kEntryBytes || Number(bytes, at, 4) != kEntryMark) {
      return absl::InvalidArgumentError("its zip directory is cut short or malformed");
    }
    const uint64_t name_bytes = Number(bytes, at + 28, 2);
    const uint64_t extra_bytes = Number(bytes, at + 30, 2);
    const uint64_t all_bytes = kEntryBytes + name_bytes + extra_bytes + Number(bytes, at + 32, 2);
    if (bytes.size() - at < all_bytes) return absl::InvalidArgumentError("its zip directory is cut short or malformed");
    ZipEntry entry{.header_offset = Number(bytes, at + 42, 4),
                   .bytes = Number(bytes, at + 24, 4),
                   .stored = Number(bytes, at + 10, 2) == 0 && (Number(bytes, at + 8, 2) & 1) == 0};
    const auto* name_begin = reinterpret_cast<const char*>(bytes.data() + at + kEntryBytes);
    std::string name(name_begin, name_bytes);
    const uint64_t packed_bytes = Number(bytes, at + 20, 4);
    if (!ReadExtra64(bytes.subspan(at + kEntryBytes + name_bytes, extra_bytes), packed_bytes, &entry)) {
      return absl::InvalidArgumentError("its zip directory has an entry without its zip64 sizes");
    }
    if (!entries.emplace(std::move(name), entry).second)
      return absl::InvalidArgumentError("its zip directory has an entry twice");
    at += all_bytes;
  }
  return entries;
}

absl::StatusOr<uint64_t> ZipDataOffset(const File& file, const std::string& name, const ZipEntry& entry) {
  if (!entry.stored) return absl::InvalidArgumentError(absl::StrCat("entry '", name, "' is compressed or encrypted"));
  const absl::StatusOr<Bytes> header = ReadRange(file, entry.header_offset, kLocalBytes);
  if (!header.ok()) return header.status();
  if (Number(*header, 0, 4) != kLocalMark)
    return absl::InvalidArgumentError(absl::StrCat("entry '", name, "' is not where it should be"));
  const CheckedU64 begin =
      CheckedU64(entry.header_offset) + CheckedU64(kLocalBytes + Number(*header, 26, 2) + Number(*header, 28, 2));
  const CheckedU64 end = begin + CheckedU64(entry.bytes);
  if (end.ok() && end.value() <= file.size()) return begin.value();
  return absl::InvalidArgumentError(
      absl::StrCat("entry '", name, "' has ", entry.bytes, " bytes, which end outside the file"));
}

}  // namespace dunlin::engine

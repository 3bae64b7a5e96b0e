// SPDX-License-Identifier: Apache-2.0
#include <array>
#include <cstring>
#include <string>
#include <string_view>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/base/string_view.h"
#include "engine/model/checkpoint/checkpoint_file.h"
#include "engine/model/checkpoint/safetensors_header.h"

namespace dunlin::engine {
namespace {

constexpr uint64_t kLengthBytes = 8;
constexpr std::string_view kPointerBegin = "version https://git-lfs";  // of the text in place of a large file

// The header's length, checked against the file's size. REQUIRES: the file has kLengthBytes.
absl::StatusOr<uint64_t> ReadHeaderLength(const File& file) {
  std::array<std::byte, kLengthBytes> bytes;
  if (absl::Status status = file.ReadAt(0, bytes); !status.ok()) return status;
  uint64_t length = 0;
  for (size_t i = kLengthBytes; i-- > 0;) length = length << 8 | std::to_integer<uint64_t>(bytes[i]);
  if (std::memcmp(bytes.data(), kPointerBegin.data(), kLengthBytes) == 0) {
    return absl::InvalidArgumentError(absl::StrCat(
        file.name(), ": is a pointer of Git LFS and not the file itself: `git lfs pull` in its repository gets that"));
  }
  if (length > kMaxHeaderBytes) {
    return absl::InvalidArgumentError(
        absl::StrCat(file.name(), ": header length is ", length, " bytes; limit is ", kMaxHeaderBytes));
  }
  if (length > file.size() - kLengthBytes) {
    return absl::InvalidArgumentError(absl::StrCat(file.name(), ": header length is ", length, " bytes; the file has ",
                                                   file.size(), ": it is cut short"));
  }
  return length;
}

}  // namespace

absl::StatusOr<CheckpointFile> OpenSafetensorsFile(const Directory& directory, std::string_view name) {
  absl::StatusOr<File> file = directory.OpenFile(name);
  if (!file.ok()) return file.status();
  if (file->size() < kLengthBytes) {
    return absl::InvalidArgumentError(
        absl::StrCat(AbslView(name), ": has ", file->size(), " bytes; a safetensors file has at least 8"));
  }
  const absl::StatusOr<uint64_t> length = ReadHeaderLength(*file);
  if (!length.ok()) return length.status();
  std::string header(*length, '\0');
  absl::Status read = file->ReadAt(kLengthBytes, std::as_writable_bytes(std::span(header)));
  if (!read.ok()) return read;
  const uint64_t data_offset = kLengthBytes + *length;
  absl::StatusOr<std::vector<TensorInfo>> tensors = ParseSafetensorsHeader(header, file->size() - data_offset);
  if (!tensors.ok()) {
    return absl::Status(tensors.status().code(), absl::StrCat(AbslView(name), ": ", tensors.status().message()));
  }
  return CheckpointFile(*std::move(file), data_offset, *std::move(tensors));
}

}  // namespace dunlin::engine

// SPDX-License-Identifier: Apache-2.0
#include "tools/quantize/safetensors_writer.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace dunlin::engine {
namespace {

constexpr const char* kPartEnding = ".part";
constexpr uint64_t kDataAlignment = 64;  // of the first tensor's bytes in the file

absl::Status Failure(const std::string& path) {
  return absl::InternalError(absl::StrCat(path, " cannot be written: ", std::strerror(errno)));
}

absl::Status WriteAt(int fd, const std::string& path, uint64_t offset, const char* data, size_t bytes) {
  while (bytes > 0) {
    const ssize_t written = pwrite(fd, data, bytes, static_cast<off_t>(offset));
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return Failure(path);
    data += written;
    offset += static_cast<uint64_t>(written);
    bytes -= static_cast<size_t>(written);
  }
  return absl::OkStatus();
}

// The header with its size in front, padded by spaces.
std::string HeaderOf(std::span<const OutputTensor> tensors) {
  nlohmann::ordered_json json;
  json["__metadata__"] = {{"format", "pt"}};
  uint64_t begin = 0;
  for (const OutputTensor& tensor : tensors) {
    json[tensor.name] = {
        {"dtype", tensor.dtype}, {"shape", tensor.shape}, {"data_offsets", {begin, begin + tensor.bytes}}};
    begin += tensor.bytes;
  }
  std::string text = json.dump();
  text.append((kDataAlignment - (text.size() + sizeof(uint64_t)) % kDataAlignment) % kDataAlignment, ' ');
  const uint64_t size = text.size();
  std::string header(sizeof(size), '\0');
  std::memcpy(header.data(), &size, sizeof(size));
  return header + text;
}

// The number of tensors of each shard, in order.
std::vector<size_t> Divide(const std::vector<OutputTensor>& tensors, uint64_t shard_bytes) {
  std::vector<size_t> counts = {0};
  uint64_t bytes = 0;
  for (const OutputTensor& tensor : tensors) {
    if (counts.back() > 0 && bytes + tensor.bytes > shard_bytes) {
      counts.push_back(0);
      bytes = 0;
    }
    ++counts.back();
    bytes += tensor.bytes;
  }
  return counts;
}

}  // namespace

absl::StatusOr<SafetensorsWriter> SafetensorsWriter::Create(const std::string& directory,
                                                            const std::vector<OutputTensor>& tensors,
                                                            uint64_t shard_bytes) {
  SafetensorsWriter writer;
  writer.directory_ = directory;
  const std::vector<size_t> counts = Divide(tensors, shard_bytes);
  size_t first = 0;
  for (size_t i = 0; i < counts.size(); ++i) {
    const std::string name = counts.size() == 1
                                 ? std::string("model.safetensors")
                                 : absl::StrFormat("model-%05d-of-%05d.safetensors", i + 1, counts.size());
    absl::Status status =
        writer.StartShard(absl::StrCat(directory, "/", name), std::span(tensors).subspan(first, counts[i]));
    if (!status.ok()) return status;
    first += counts[i];
  }
  return writer;
}

absl::Status SafetensorsWriter::StartShard(const std::string& path, std::span<const OutputTensor> tensors) {
  const std::string part = path + kPartEnding;
  const int fd = open(part.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
  if (fd < 0) return Failure(part);
  shards_.push_back({path, fd});
  const std::string header = HeaderOf(tensors);
  uint64_t begin = header.size();
  for (const OutputTensor& tensor : tensors) {
    places_[tensor.name] = {shards_.size() - 1, begin};
    begin += tensor.bytes;
    total_bytes_ += tensor.bytes;
  }
  if (const int error = posix_fallocate(fd, 0, static_cast<off_t>(begin)); error != 0) {
    errno = error;
    return Failure(part);
  }
  return WriteAt(fd, part, 0, header.data(), header.size());
}

SafetensorsWriter::~SafetensorsWriter() {
  for (const Shard& shard : shards_) {
    if (shard.fd < 0) continue;
    close(shard.fd);
    unlink((shard.path + kPartEnding).c_str());
  }
}

absl::Status SafetensorsWriter::Write(const std::string& name, uint64_t first_byte, std::span<const std::byte> bytes) {
  const Place& place = places_.at(name);
  const Shard& shard = shards_[place.shard];
  return WriteAt(shard.fd, shard.path, place.begin + first_byte, reinterpret_cast<const char*>(bytes.data()),
                 bytes.size());
}

absl::Status SafetensorsWriter::Finish() {
  for (Shard& shard : shards_) {
    const std::string part = shard.path + kPartEnding;
    if (fsync(shard.fd) != 0 || std::rename(part.c_str(), shard.path.c_str()) != 0) return Failure(shard.path);
    close(shard.fd);
    shard.fd = -1;
  }
  if (shards_.size() == 1) return absl::OkStatus();
  nlohmann::ordered_json index;
  index["metadata"] = {{"total_size", total_bytes_}};
  for (const auto& [name, place] : places_) {
    const std::string& path = shards_[place.shard].path;
    index["weight_map"][name] = path.substr(path.rfind('/') + 1);
  }
  const std::string path = absl::StrCat(directory_, "/model.safetensors.index.json");
  std::ofstream stream(path, std::ios::binary | std::ios::trunc);
  stream << index.dump(1) << "\n";
  stream.close();
  return stream ? absl::OkStatus() : Failure(path);
}

}  // namespace dunlin::engine

// SPDX-License-Identifier: Apache-2.0
#include "kernels/cuda/gemm/cublaslt/algorithm_store.h"

#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>

namespace dunlin::kernels::cuda {
namespace {

constexpr size_t kFileBytesMax = size_t{4} << 20;  // about 20,000 GEMMs
constexpr size_t kProductsMax = 10000;

constexpr char kNoFile[] = "it is not a regular file";

// A pipe would be waited for, and a device node replaced.
bool IsAnotherKind(const std::string& path) {
  std::error_code error;
  const std::filesystem::file_status status = std::filesystem::status(path, error);
  return std::filesystem::exists(status) && !std::filesystem::is_regular_file(status);
}

bool WriteAll(int file, const std::string& text) {
  size_t done = 0;
  while (done < text.size()) {
    const ssize_t count = write(file, text.data() + done, text.size() - done);
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return false;
    done += static_cast<size_t>(count);
  }
  return fsync(file) == 0;
}

// Writes a temporary file and renames it over the path, so that readers see the old or the new version. False:
// errno says why.
bool Replace(const std::string& path, const std::string& text) {
  std::string beside = path + ".XXXXXX";
  const int file = mkstemp(beside.data());
  if (file < 0) return false;
  const bool written = WriteAll(file, text);
  const int reason = errno;
  if (close(file) == 0 && written && std::rename(beside.c_str(), path.c_str()) == 0) return true;
  if (!written) errno = reason;
  const int first = errno;
  (void)std::remove(beside.c_str());
  errno = first;
  return false;
}

}  // namespace

std::string AlgorithmStore::ReadFile(Algorithms* algorithms) const {
  const std::string ignored = "the cuBLASLt algorithm cache " + path_ + " is ignored and made anew: ";
  if (IsAnotherKind(path_)) return ignored + kNoFile;
  std::ifstream file(path_, std::ios::binary);
  if (!file) return "";
  std::string text(kFileBytesMax + 1, 0);
  file.read(text.data(), static_cast<std::streamsize>(text.size()));
  text.resize(static_cast<size_t>(file.gcount()));
  const std::string reason = text.size() > kFileBytesMax
                                 ? "it has more than " + std::to_string(kFileBytesMax) + " bytes"
                                 : DecodeAlgorithms(text, platform_, algorithms);
  return reason.empty() ? "" : ignored + reason;
}

std::string AlgorithmStore::Read() {
  Algorithms read;
  if (!on_disk()) return "";
  std::string reason = ReadFile(&read);
  known_.merge(read);  // this process's choices win
  return reason;
}

const MatmulAlgo* AlgorithmStore::Find(const std::string& product) const {
  const auto found = known_.find(product);
  return found == known_.end() ? nullptr : &found->second;
}

void AlgorithmStore::Add(const std::string& product, const MatmulAlgo& algo) {
  if (known_.size() >= kProductsMax) return;
  known_[product] = algo;
  added_ = true;
}

std::string AlgorithmStore::Write() {
  if (!on_disk() || !added_) return "";
  const std::string failed = "the cuBLASLt algorithm cache " + path_ + " cannot be written: ";
  if (IsAnotherKind(path_)) return failed + kNoFile;
  Algorithms all;
  (void)ReadFile(&all);
  all.insert(known_.begin(), known_.end());
  if (Replace(path_, EncodeAlgorithms(platform_, all))) {
    added_ = false;
    return "";
  }
  return failed + std::strerror(errno);
}

}  // namespace dunlin::kernels::cuda

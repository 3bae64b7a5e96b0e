// SPDX-License-Identifier: Apache-2.0
#include "kernels/cuda/gemm/cublaslt/algorithm_file.h"

#include <algorithm>
#include <cinttypes>
#include <cstdio>
#include <sstream>
#include <utility>

namespace dunlin::kernels::cuda {
namespace {

constexpr char kTitle[] = "dunlin cublaslt algorithms 1";
constexpr char kEnd[] = "end ";
constexpr char kDamaged[] = "it is torn or damaged";

std::string Hex(uint64_t word) {
  char text[17];
  std::snprintf(text, sizeof(text), "%016" PRIx64, word);
  return text;
}

// Source: Fowler, Noll, Vo, FNV-1a of 64 bits.
uint64_t Checksum(const std::string& text) {
  uint64_t sum = 0xCBF29CE484222325U;
  for (const char c : text) sum = (sum ^ static_cast<unsigned char>(c)) * 0x100000001B3U;
  return sum;
}

std::string LastLine(const std::string& text) {
  return kEnd + Hex(Checksum(text)) + "\n";
}

bool ReadEntry(const std::string& line, Algorithms* algorithms) {
  const size_t sign = line.find(" =");
  if (sign == std::string::npos || sign == 0) return false;
  std::istringstream words(line.substr(sign + 2));
  MatmulAlgo algo{};
  words >> std::hex;
  for (uint64_t& word : algo.data) words >> word;
  std::string rest;
  if (!words || words >> rest) return false;
  return algorithms->emplace(line.substr(0, sign), algo).second;
}

}  // namespace

std::string EncodeAlgorithms(const std::string& platform, const Algorithms& algorithms) {
  std::string text = std::string(kTitle) + "\n" + platform + "\n";
  for (const auto& [product, algo] : algorithms) {
    text += product + " =";
    for (const uint64_t word : algo.data) text += " " + Hex(word);
    text += "\n";
  }
  return text + LastLine(text);
}

std::string DecodeAlgorithms(const std::string& text, const std::string& platform, Algorithms* algorithms) {
  algorithms->clear();
  if (text.rfind(std::string(kTitle) + "\n", 0) != 0) return "it is not a file of this version's algorithms";
  const size_t length = text.size() - std::min(text.size(), LastLine("").size());
  const std::string body = text.substr(0, length);
  if (text.substr(length) != LastLine(body)) return kDamaged;
  std::istringstream lines(body.substr(sizeof(kTitle)));
  std::string line;
  if (!std::getline(lines, line)) return kDamaged;
  if (line != platform) return "it is of \"" + line + "\"; this is \"" + platform + "\"";
  Algorithms read;
  while (std::getline(lines, line)) {
    if (!ReadEntry(line, &read)) return kDamaged;
  }
  *algorithms = std::move(read);
  return "";
}

}  // namespace dunlin::kernels::cuda

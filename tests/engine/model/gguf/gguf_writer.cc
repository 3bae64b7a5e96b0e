// SPDX-License-Identifier: Apache-2.0
#include "tests/engine/model/gguf/gguf_writer.h"

#include <bit>
#include <utility>

namespace dunlin::engine {
namespace {

constexpr size_t kAlignment = 32;

void Pad(std::string* bytes) {
  bytes->resize((bytes->size() + kAlignment - 1) / kAlignment * kAlignment);
}

}  // namespace

std::string LittleEndian(uint64_t value, size_t bytes) {
  std::string text;
  for (size_t i = 0; i < bytes; ++i) text += static_cast<char>(value >> (8 * i) & 0xFF);
  return text;
}

std::string GgufText(std::string_view text) {
  return LittleEndian(text.size(), 8) + std::string(text);
}

GgufWriter& GgufWriter::Add(std::string_view key, GgufType type, std::string_view value) {
  metadata_ += GgufText(key) + LittleEndian(static_cast<uint64_t>(type), 4) + std::string(value);
  ++num_keys_;
  return *this;
}

GgufWriter& GgufWriter::AddUnsigned(std::string_view key, uint32_t value) {
  return Add(key, GgufType::kU32, LittleEndian(value, 4));
}

GgufWriter& GgufWriter::AddFloat(std::string_view key, float value) {
  return Add(key, GgufType::kF32, LittleEndian(std::bit_cast<uint32_t>(value), 4));
}

GgufWriter& GgufWriter::AddBool(std::string_view key, bool value) {
  return Add(key, GgufType::kBool, LittleEndian(value ? 1 : 0, 1));
}

GgufWriter& GgufWriter::AddText(std::string_view key, std::string_view value) {
  return Add(key, GgufType::kString, GgufText(value));
}

GgufWriter& GgufWriter::AddTexts(std::string_view key, const std::vector<std::string>& values) {
  std::string bytes = LittleEndian(static_cast<uint64_t>(GgufType::kString), 4) + LittleEndian(values.size(), 8);
  for (const std::string& value : values) bytes += GgufText(value);
  return Add(key, GgufType::kArray, bytes);
}

GgufWriter& GgufWriter::AddFloats(std::string_view key, const std::vector<float>& values) {
  std::string bytes = LittleEndian(static_cast<uint64_t>(GgufType::kF32), 4) + LittleEndian(values.size(), 8);
  for (const float value : values) bytes += LittleEndian(std::bit_cast<uint32_t>(value), 4);
  return Add(key, GgufType::kArray, bytes);
}

GgufWriter& GgufWriter::AddTensor(GgufTestTensor tensor) {
  tensors_.push_back(std::move(tensor));
  return *this;
}

std::string GgufWriter::Bytes(size_t* header_size) const {
  std::string bytes = "GGUF" + LittleEndian(3, 4) + LittleEndian(tensors_.size(), 8) + LittleEndian(num_keys_, 8);
  bytes += metadata_;
  std::string data;
  for (const GgufTestTensor& tensor : tensors_) {
    bytes += GgufText(tensor.name) + LittleEndian(tensor.dimensions.size(), 4);
    for (const uint64_t dimension : tensor.dimensions) bytes += LittleEndian(dimension, 8);
    bytes += LittleEndian(tensor.type, 4) + LittleEndian(data.size() + tensor.offset_error, 8);
    data += tensor.data;
    Pad(&data);
  }
  Pad(&bytes);
  if (header_size != nullptr) *header_size = bytes.size();
  return bytes + data;
}

}  // namespace dunlin::engine

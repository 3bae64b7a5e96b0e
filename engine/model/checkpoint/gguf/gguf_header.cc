// SPDX-License-Identifier: Apache-2.0
#include "engine/model/checkpoint/gguf/gguf_header.h"

#include <algorithm>
#include <bit>
#include <set>
#include <string_view>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/base/checked_math.h"
#include "engine/model/checkpoint/gguf/gguf_cursor.h"

namespace dunlin::engine {
namespace {

constexpr uint64_t kMagic = 0x46554747;     // "GGUF"
constexpr uint64_t kLfsMagic = 0x73726576;  // "vers": "version https://git-lfs", the text in place of a large file
constexpr uint64_t kDefaultAlignment = 32;
constexpr uint64_t kMaxAlignment = 1 << 20;
constexpr const char* kAlignmentKey = "general.alignment";

std::string Quoted(std::string_view name) {
  std::string text = "'";
  for (const char c : name.substr(0, 64)) text += c >= ' ' && c < '\x7F' ? c : '?';
  return text + "'";
}

uint64_t Count(GgufCursor& cursor, const char* what, uint64_t limit) {
  const uint64_t count = cursor.Unsigned(sizeof(uint64_t));
  if (count > limit) cursor.Fail(absl::StrCat("has ", count, " ", what, "; limit is ", limit));
  return count;
}

GgufType ReadType(GgufCursor& cursor) {
  const uint64_t type = cursor.Unsigned(sizeof(uint32_t));
  if (type > static_cast<uint64_t>(GgufType::kF64)) cursor.Fail(absl::StrCat("has unknown type ", type));
  return static_cast<GgufType>(type);
}

void SkipElements(GgufCursor& cursor, const GgufValue& value) {
  if (value.type == GgufType::kArray) {
    cursor.Fail("is an array of arrays, which is not supported");
  } else if (value.type == GgufType::kString) {
    for (uint64_t i = 0; i < value.count && cursor.status().ok(); ++i) {
      cursor.Skip(cursor.Unsigned(sizeof(uint64_t)));
    }
  } else {
    const CheckedU64 bytes = CheckedU64(value.count) * CheckedU64(ElementBytes(value.type));
    if (!bytes.ok()) {
      cursor.Fail(absl::StrCat("has ", value.count, " elements, whose size overflows"));
      return;
    }
    cursor.Skip(bytes.value());
  }
}

GgufValue ReadValue(GgufCursor& cursor) {
  GgufValue value;
  value.type = ReadType(cursor);
  if (value.type == GgufType::kArray) {
    value.is_array = true;
    value.type = ReadType(cursor);
    value.count = cursor.Unsigned(sizeof(uint64_t));
    value.offset = cursor.offset();
    if (cursor.status().ok()) SkipElements(cursor, value);
    value.bytes = cursor.offset() - value.offset;
  } else if (value.type == GgufType::kString) {
    value.count = cursor.Unsigned(sizeof(uint64_t));
    value.bytes = value.count;
    value.offset = cursor.Skip(value.count);
  } else if (cursor.status().ok()) {
    value.bits = cursor.Unsigned(ElementBytes(value.type));
  }
  return value;
}

absl::Status ReadMetadata(GgufCursor& cursor, uint64_t num_keys, GgufHeader* header) {
  for (uint64_t i = 0; i < num_keys; ++i) {
    cursor.set_where(absl::StrCat("metadata key ", i));
    std::string key = cursor.Text(kMaxGgufKeyBytes, "its name");
    cursor.set_where(absl::StrCat("metadata ", Quoted(key)));
    const GgufValue value = ReadValue(cursor);
    if (!header->metadata.emplace(std::move(key), value).second) cursor.Fail("appears twice");
    if (!cursor.status().ok()) return cursor.status();
  }
  return absl::OkStatus();
}

// The tensor's size in bytes from its shape, checked.
void SetBytes(GgufCursor& cursor, GgufTensor* tensor) {
  const GgmlType& type = *tensor->type;
  const int64_t row = tensor->shape.empty() ? 1 : tensor->shape.back();
  if (row % type.block_elements != 0) {
    cursor.Fail(absl::StrCat("has rows of ", row, " elements, no multiple of the ", type.block_elements, " of a ",
                             type.presented.name, " block"));
    return;
  }
  CheckedU64 elements(1);
  for (const int64_t dimension : tensor->shape) elements *= CheckedU64(static_cast<uint64_t>(dimension));
  // 8 bytes an element: no byte count that follows from the shape overflows.
  const CheckedU64 widest = elements * CheckedU64(8);
  if (!widest.ok() || widest.value() > INT64_MAX) {
    cursor.Fail("has a shape whose size overflows");
    return;
  }
  tensor->bytes = elements.value() / type.block_elements * type.block_bytes;
}

GgufTensor ReadTensor(GgufCursor& cursor) {
  GgufTensor tensor;
  tensor.name = cursor.Text(kMaxGgufNameBytes, "its name");
  cursor.set_where(absl::StrCat("tensor ", Quoted(tensor.name)));
  const uint64_t rank = cursor.Unsigned(sizeof(uint32_t));
  if (rank > kMaxGgufRank) cursor.Fail(absl::StrCat("has ", rank, " dimensions; limit is ", kMaxGgufRank));
  for (uint64_t i = 0; i < rank && cursor.status().ok(); ++i) {
    const uint64_t dimension = cursor.Unsigned(sizeof(uint64_t));
    if (dimension == 0 || dimension > INT64_MAX) {
      cursor.Fail(absl::StrCat("has dimension ", dimension, "; limit is [1, 2^63)"));
    }
    tensor.shape.push_back(static_cast<int64_t>(dimension));
  }
  std::reverse(tensor.shape.begin(), tensor.shape.end());
  const auto type = static_cast<uint32_t>(cursor.Unsigned(sizeof(uint32_t)));
  tensor.type = FindGgmlType(type);
  if (tensor.type == nullptr) cursor.Fail(absl::StrCat("has unknown type ", type));
  tensor.offset = cursor.Unsigned(sizeof(uint64_t));
  if (cursor.status().ok()) SetBytes(cursor, &tensor);
  return tensor;
}

absl::StatusOr<uint64_t> Alignment(const GgufHeader& header) {
  const auto found = header.metadata.find(kAlignmentKey);
  if (found == header.metadata.end()) return kDefaultAlignment;
  const GgufValue& value = found->second;
  const bool fits =
      !value.is_array && value.type == GgufType::kU32 && std::has_single_bit(value.bits) && value.bits <= kMaxAlignment;
  if (fits) return value.bits;
  return absl::InvalidArgumentError(
      absl::StrCat("metadata '", kAlignmentKey, "' must be a 32-bit power of two of at most ", kMaxAlignment));
}

// Makes offsets absolute and checks that the tensors lie in the file, one after the other.
absl::Status PlaceTensors(uint64_t data_begin, uint64_t file_bytes, uint64_t alignment,
                          std::vector<GgufTensor>* tensors) {
  for (GgufTensor& tensor : *tensors) {
    if (tensor.offset % alignment != 0) {
      return absl::InvalidArgumentError(absl::StrCat("tensor ", Quoted(tensor.name), ": offset ", tensor.offset,
                                                     " is no multiple of the alignment ", alignment));
    }
    const CheckedU64 begin = CheckedU64(data_begin) + CheckedU64(tensor.offset);
    const CheckedU64 end = begin + CheckedU64(tensor.bytes);
    if (!end.ok() || end.value() > file_bytes) {
      return absl::InvalidArgumentError(
          absl::StrCat("tensor ", Quoted(tensor.name), ": ", tensor.bytes, " bytes at offset ", tensor.offset,
                       " of the data end outside the file of ", file_bytes, " bytes: it is cut short"));
    }
    tensor.offset = begin.value();
  }
  std::sort(tensors->begin(), tensors->end(), [](const GgufTensor& a, const GgufTensor& b) {
    return std::pair(a.offset, a.bytes) < std::pair(b.offset, b.bytes);
  });
  for (size_t i = 1; i < tensors->size(); ++i) {
    const GgufTensor& before = (*tensors)[i - 1];
    if (before.offset + before.bytes <= (*tensors)[i].offset) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("tensors ", Quoted(before.name), " and ", Quoted((*tensors)[i].name), " overlap"));
  }
  return absl::OkStatus();
}

absl::Status CheckNames(const std::vector<GgufTensor>& tensors) {
  std::set<std::string_view> names;
  for (const GgufTensor& tensor : tensors) {
    if (!names.insert(tensor.name).second) {
      return absl::InvalidArgumentError(absl::StrCat("tensor ", Quoted(tensor.name), " appears twice"));
    }
  }
  return absl::OkStatus();
}

absl::Status ReadVersion(GgufCursor& cursor) {
  const uint64_t magic = cursor.Unsigned(sizeof(uint32_t));
  if (cursor.status().ok() && magic == kLfsMagic) {
    return absl::InvalidArgumentError(
        "is a pointer of Git LFS and not the file itself: `git lfs pull` in its repository gets that");
  }
  if (cursor.status().ok() && magic != kMagic)
    return absl::InvalidArgumentError("is no GGUF file: it does not begin with \"GGUF\"");
  const uint64_t version = cursor.Unsigned(sizeof(uint32_t));
  if (!cursor.status().ok() || version == 2 || version == 3) return cursor.status();
  const bool swapped = version != 0 && (version & 0xFFFF) == 0;
  return absl::InvalidArgumentError(swapped ? std::string("is a big-endian GGUF file, which is not supported")
                                            : absl::StrCat("has GGUF version ", version, "; known are 2 and 3"));
}

}  // namespace

uint32_t ElementBytes(GgufType type) {
  constexpr uint32_t kBytes[] = {1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8};
  return kBytes[static_cast<size_t>(type)];
}

absl::StatusOr<GgufHeader> ParseGgufHeader(uint64_t file_bytes, const GgufRead& read) {
  GgufCursor cursor(file_bytes, read);
  if (absl::Status status = ReadVersion(cursor); !status.ok()) return status;
  const uint64_t num_tensors = Count(cursor, "tensors", kMaxGgufTensors);
  const uint64_t num_keys = Count(cursor, "metadata keys", kMaxGgufKeys);
  if (!cursor.status().ok()) return cursor.status();
  GgufHeader header;
  if (absl::Status status = ReadMetadata(cursor, num_keys, &header); !status.ok()) return status;
  for (uint64_t i = 0; i < num_tensors; ++i) {
    cursor.set_where(absl::StrCat("tensor ", i));
    header.tensors.push_back(ReadTensor(cursor));
    if (!cursor.status().ok()) return cursor.status();
  }
  const absl::StatusOr<uint64_t> alignment = Alignment(header);
  if (!alignment.ok()) return alignment.status();
  const uint64_t data_begin = CheckedU64(cursor.offset()).AlignedUp(*alignment).value();
  if (absl::Status status = PlaceTensors(data_begin, file_bytes, *alignment, &header.tensors); !status.ok()) {
    return status;
  }
  if (absl::Status status = CheckNames(header.tensors); !status.ok()) return status;
  return header;
}

}  // namespace dunlin::engine

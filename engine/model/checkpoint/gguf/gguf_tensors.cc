// SPDX-License-Identifier: Apache-2.0
#include "engine/model/checkpoint/gguf/gguf_tensors.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "engine/model/checkpoint/gguf/ggml_codes.h"
#include "engine/model/checkpoint/shard_list.h"

namespace dunlin::engine {
namespace {

constexpr const char* kSplitCount = "split.count";
constexpr const char* kSplitIndex = "split.no";
constexpr const char* kSplitTensors = "split.tensors.count";

// "NAME" of "NAME-00001-of-00003.gguf"; "" where the name does not end so.
std::string SplitStem(const std::string& name, int64_t number, int64_t count) {
  const std::string ending = absl::StrFormat("-%05d-of-%05d.gguf", number, count);
  return name.ends_with(ending) ? name.substr(0, name.size() - ending.size()) : "";
}

// Tensors that stay matrices where they have one row, which other writers may store as vectors.
bool IsSingleRow(const GgufTensor& tensor) {
  const auto ends = [&tensor](const char* ending) { return tensor.name.ends_with(ending); };
  return tensor.shape.size() == 1 && (ends(".ffn_gate_inp_shexp.weight") || ends("token_types.weight"));
}

}  // namespace

// Of a bias whose rows change places: one value.
uint64_t GgufTensors::RowElements(const Entry& entry) {
  const bool by_element = entry.info.shape.size() < 2 && entry.heads.head_dim > 0;
  return by_element ? uint64_t{1} : static_cast<uint64_t>(entry.info.shape.back());
}

absl::StatusOr<std::unique_ptr<GgufTensors>> GgufTensors::Open(const Directory& directory, GgufFile first) {
  std::unique_ptr<GgufTensors> tensors(new GgufTensors());
  tensors->files_.push_back(std::move(first));
  if (absl::Status status = tensors->OpenOthers(directory); !status.ok()) return status;
  if (absl::Status status = tensors->ListTensors(); !status.ok()) return status;
  return tensors;
}

absl::Status GgufTensors::OpenOthers(const Directory& directory) {
  GgufFields fields(files_.front());
  const int64_t count = fields.Int(kSplitCount, 0, kMaxShards).value_or(0);
  const int64_t index = fields.Int(kSplitIndex, 0, kMaxShards).value_or(0);
  const std::optional<int64_t> num_tensors = fields.Int(kSplitTensors, 0, kMaxGgufTensors);
  if (!fields.status().ok()) return fields.status();
  if (count <= 1) return absl::OkStatus();
  const std::string name = files_.front().file().name();
  if (index != 0) {
    return absl::InvalidArgumentError(
        absl::StrCat(name, ": is part ", index + 1, " of ", count, "; give the first part"));
  }
  const std::string stem = SplitStem(name, 1, count);
  if (stem.empty()) {
    return absl::InvalidArgumentError(absl::StrCat(name, ": is the first of ", count,
                                                   " parts, and its name does not end in ",
                                                   absl::StrFormat("-00001-of-%05d.gguf", count)));
  }
  for (int64_t part = 1; part < count; ++part) {
    const std::string part_name = absl::StrFormat("%s-%05d-of-%05d.gguf", stem, part + 1, count);
    absl::StatusOr<GgufFile> file = GgufFile::Open(directory, part_name);
    if (!file.ok()) return file.status();
    GgufFields part_fields(*file);
    const int64_t own_index = part_fields.Int(kSplitIndex, 0, kMaxShards).value_or(-1);
    const int64_t own_count = part_fields.Int(kSplitCount, 0, kMaxShards).value_or(-1);
    if (!part_fields.status().ok()) return part_fields.status();
    if (own_index != part || own_count != count) {
      return absl::InvalidArgumentError(absl::StrCat(part_name, ": says that it is split.no ", own_index, " of ",
                                                     own_count, "; its name makes it ", part, " of ", count));
    }
    files_.push_back(*std::move(file));
  }
  size_t total = 0;
  for (const GgufFile& file : files_) total += file.header().tensors.size();
  if (!num_tensors.has_value() || static_cast<int64_t>(total) == *num_tensors) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(name, ": ", kSplitTensors, " is ", *num_tensors, "; the parts have ", total));
}

absl::Status GgufTensors::ListTensors() {
  for (size_t file = 0; file < files_.size(); ++file) {
    for (const GgufTensor& stored : files_[file].header().tensors) {
      TensorInfo info;
      info.name = stored.name;
      info.dtype = &stored.type->presented;
      info.shape = stored.shape;
      if (IsSingleRow(stored)) info.shape.insert(info.shape.begin(), 1);
      uint64_t elements = 1;
      for (const int64_t dimension : stored.shape) elements *= static_cast<uint64_t>(dimension);
      info.end = elements * (info.dtype->bits / 8);
      info.file_index = static_cast<int32_t>(entries_.size());
      entries_.push_back({.info = std::move(info), .stored = &stored, .file = file});
    }
  }
  by_name_.resize(entries_.size());
  for (size_t i = 0; i < by_name_.size(); ++i) by_name_[i] = i;
  const auto name = [this](size_t i) -> const std::string& { return entries_[i].info.name; };
  std::sort(by_name_.begin(), by_name_.end(), [&](size_t a, size_t b) { return name(a) < name(b); });
  const auto twin =
      std::adjacent_find(by_name_.begin(), by_name_.end(), [&](size_t a, size_t b) { return name(a) == name(b); });
  if (twin == by_name_.end()) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("tensor '", name(*twin), "' is in ", FileOf(entries_[*twin].info),
                                                 " and in ", FileOf(entries_[*(twin + 1)].info)));
}

void GgufTensors::SeparateRotationHalves(const RotatedHeads& heads) {
  for (Entry& entry : entries_) {
    const auto has = [&entry](const char* part) { return entry.info.name.find(part) != std::string::npos; };
    const bool fused = has(".attn_qkv.");
    if (!fused && !has(".attn_q.") && !has(".attn_k.")) continue;
    // Another shape is refused later, with the expected one.
    if (entry.info.shape.empty() || entry.info.shape[0] % heads.head_dim != 0) continue;
    entry.heads = heads;
    entry.rotated_rows = fused ? heads.rows_of_fused : entry.info.shape[0];
  }
}

uint64_t GgufTensors::Entry::StoredRow(uint64_t row) const {
  if (heads.head_dim == 0 || row >= static_cast<uint64_t>(rotated_rows)) return row;
  const uint64_t in_head = row % static_cast<uint64_t>(heads.head_dim);
  const auto half = static_cast<uint64_t>(heads.rotary_dim / 2);
  if (in_head >= 2 * half) return row;
  return row - in_head + 2 * (in_head % half) + in_head / half;
}

const TensorInfo* GgufTensors::Find(std::string_view name) const {
  const auto found = std::lower_bound(by_name_.begin(), by_name_.end(), name,
                                      [this](size_t i, std::string_view key) { return entries_[i].info.name < key; });
  return found != by_name_.end() && entries_[*found].info.name == name ? &entries_[*found].info : nullptr;
}

const GgufTensors::Entry& GgufTensors::EntryOf(const TensorInfo& tensor) const {
  return entries_[static_cast<size_t>(tensor.file_index)];
}

absl::Status GgufTensors::Read(const TensorInfo& tensor, uint64_t first_byte, std::span<std::byte> out) const {
  const Entry& entry = EntryOf(tensor);
  if (!IsDirect(entry)) return Convert(entry, first_byte, out);
  return files_[entry.file].file().ReadAt(entry.stored->offset + first_byte, out);
}

absl::StatusOr<std::byte*> GgufTensors::ReadOnce(const TensorInfo& tensor, uint64_t first_byte, size_t bytes,
                                                 PageBuffer* buffer) const {
  const Entry& entry = EntryOf(tensor);
  if (IsDirect(entry)) return files_[entry.file].file().ReadOnce(entry.stored->offset + first_byte, bytes, buffer);
  if (!buffer->Reserve(bytes)) {
    return absl::ResourceExhaustedError(absl::StrCat("no memory for ", bytes, " bytes of tensor ", tensor.name));
  }
  const std::span<std::byte> out = buffer->bytes().first(bytes);
  if (absl::Status status = Convert(entry, first_byte, out); !status.ok()) return status;
  return out.data();
}

const std::byte* GgufTensors::StoredRows::Row(const Entry& entry, uint64_t row) const {
  return bytes + (entry.StoredRow(row) - first_row) * row_bytes;
}

absl::Status GgufTensors::ReadStored(const Entry& entry, uint64_t first_row, uint64_t end_row, StoredRows* out) const {
  const GgmlType& type = *entry.stored->type;
  const auto rows_at_once = static_cast<uint64_t>(std::max(entry.heads.head_dim, int64_t{1}));
  const uint64_t end_stored = (end_row + rows_at_once - 1) / rows_at_once * rows_at_once;
  out->first_row = first_row / rows_at_once * rows_at_once;
  out->row_bytes = RowElements(entry) / type.block_elements * type.block_bytes;
  const absl::StatusOr<std::byte*> read =
      files_[entry.file].file().ReadOnce(entry.stored->offset + out->first_row * out->row_bytes,
                                         (end_stored - out->first_row) * out->row_bytes, &out->memory);
  if (!read.ok()) return read.status();
  out->bytes = *read;
  return absl::OkStatus();
}

// Converts each row and copies what is wanted of it.
absl::Status GgufTensors::Convert(const Entry& entry, uint64_t first_byte, std::span<std::byte> out) const {
  if (out.empty()) return absl::OkStatus();
  const GgmlType& type = *entry.stored->type;
  const uint64_t columns = RowElements(entry);
  const uint64_t row_bytes = columns * (entry.info.dtype->bits / 8);
  const uint64_t first_row = first_byte / row_bytes;
  const uint64_t end_row = (first_byte + out.size() + row_bytes - 1) / row_bytes;
  StoredRows stored;
  if (absl::Status read = ReadStored(entry, first_row, end_row, &stored); !read.ok()) return read;
  std::vector<float> partial;  // a row of which a part is wanted
  for (uint64_t row = first_row; row < end_row; ++row) {
    const std::byte* source = stored.Row(entry, row);
    const uint64_t begin = std::max(row * row_bytes, first_byte);
    const uint64_t end = std::min((row + 1) * row_bytes, first_byte + out.size());
    std::byte* target = out.data() + (begin - first_byte);
    if (type.dequantize == nullptr) {
      std::memcpy(target, source + (begin - row * row_bytes), end - begin);
      continue;
    }
    const auto* blocks = reinterpret_cast<const uint8_t*>(source);
    const bool in_place = end - begin == row_bytes && reinterpret_cast<uintptr_t>(target) % alignof(float) == 0;
    if (in_place) {
      type.dequantize(blocks, columns / type.block_elements, reinterpret_cast<float*>(target));
      continue;
    }
    partial.resize(columns);
    type.dequantize(blocks, columns / type.block_elements, partial.data());
    std::memcpy(target, reinterpret_cast<const std::byte*>(partial.data()) + (begin - row * row_bytes), end - begin);
  }
  return absl::OkStatus();
}

std::optional<kernels::CodeTraits> GgufTensors::CodesOf(const TensorInfo& tensor) const {
  const GgmlCodes* codes = FindGgmlCodes(EntryOf(tensor).stored->type->id);
  if (codes == nullptr || tensor.shape.size() < 2) return std::nullopt;
  return codes->traits;
}

absl::Status GgufTensors::ReadCodes(const TensorInfo& tensor, int64_t first_row, int64_t num_rows,
                                    CodedRows* out) const {
  const Entry& entry = EntryOf(tensor);
  const GgmlCodes& type = *FindGgmlCodes(entry.stored->type->id);
  const int64_t columns = tensor.shape.back();
  out->Resize(type.traits, num_rows, columns);
  if (num_rows == 0) return absl::OkStatus();
  StoredRows stored;
  absl::Status read =
      ReadStored(entry, static_cast<uint64_t>(first_row), static_cast<uint64_t>(first_row + num_rows), &stored);
  if (!read.ok()) return read;
  const int64_t blocks = kernels::BlocksOf(type.traits, columns);
  const int64_t groups = kernels::GroupsOf(type.traits, columns);
  for (int64_t row = 0; row < num_rows; ++row) {
    const CodePointers to{.codes = out->codes.data() + row * columns,
                          .factors = type.traits.wide ? nullptr : out->factors.data() + row * blocks,
                          .scales = type.traits.scales ? out->scales.data() + row * groups : nullptr,
                          .min_factors = type.traits.minimums ? out->min_factors.data() + row * blocks : nullptr,
                          .minimums = type.traits.minimums ? out->minimums.data() + row * groups : nullptr,
                          .wide_factors = type.traits.wide ? out->wide_factors.data() + row * blocks : nullptr};
    type.unpack(reinterpret_cast<const uint8_t*>(stored.Row(entry, static_cast<uint64_t>(first_row + row))),
                static_cast<size_t>(blocks), to);
  }
  return absl::OkStatus();
}

std::string GgufTensors::FileOf(const TensorInfo& tensor) const {
  return files_[EntryOf(tensor).file].file().name();
}

absl::Status GgufTensors::CheckUnchanged() const {
  for (const GgufFile& file : files_) {
    if (absl::Status status = file.file().CheckUnchanged(); !status.ok()) return status;
  }
  return absl::OkStatus();
}

std::vector<const TensorInfo*> GgufTensors::List() const {
  std::vector<const TensorInfo*> list;
  for (const Entry& entry : entries_) list.push_back(&entry.info);
  return list;
}

}  // namespace dunlin::engine

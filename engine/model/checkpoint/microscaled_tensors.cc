// SPDX-License-Identifier: Apache-2.0
#include "engine/model/checkpoint/microscaled_tensors.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "kernels/api/code_levels.h"
#include "kernels/api/float_formats.h"

namespace dunlin::engine {
namespace {

using kernels::CodeLevels;
using kernels::DType;

constexpr std::string_view kPackedEnding = ".weight_packed";
constexpr std::string_view kPlainEnding = ".weight";
constexpr const char* kScaleEnding = ".weight_scale";
constexpr const char* kDeepseekScaleEnding = ".scale";
// Of E8M0 scales, biased: the largest code times 2^(exponent - 127) is in FP32's range.
constexpr int kMaxE2M1Exponent = 252;
constexpr int kMaxE4M3Exponent = 246;
constexpr int64_t kMxGroup = 32;  // columns of a scale of MXFP4
// Of powers of two that E4M3 has: 2^-9 to 2^8.
constexpr int kLargestPower = 8;
constexpr int kPowerRange = 17;

bool IsBytes(const TensorInfo& tensor) {
  const std::string_view name = tensor.dtype->name;
  return name == "U8" || name == "I8";
}
bool IsE4M3(const TensorInfo& tensor) {
  return tensor.dtype->loadable == DType::kF8E4M3;
}
bool IsExponents(const TensorInfo& tensor) {
  return IsBytes(tensor) || std::string_view(tensor.dtype->name) == "F8_E8M0";
}

absl::Status UnexpectedTensor(const TensorInfo& tensor, const std::string& expected) {
  return absl::InvalidArgumentError(absl::StrCat("tensor '", tensor.name, "' is ", tensor.dtype->name, " ",
                                                 ShapeText(tensor.shape), "; must be ", expected));
}

// E2M1 code `index`, in halves.
int8_t HalvesOfE2M1(const std::vector<std::byte>& codes, size_t index) {
  const auto pair = std::to_integer<uint32_t>(codes[index / 2]);
  return kernels::RowOf(CodeLevels::kE2M1).values[index % 2 == 0 ? pair & 0xFU : pair >> 4];
}

}  // namespace

absl::StatusOr<std::unique_ptr<TensorSource>> MicroscaledTensors::Open(std::unique_ptr<TensorSource> stored) {
  std::unique_ptr<MicroscaledTensors> tensors(new MicroscaledTensors(std::move(stored)));
  for (const TensorInfo* tensor : tensors->stored().List()) {
    if (absl::Status status = tensors->Add(*tensor); !status.ok()) return status;
  }
  if (tensors->num_derived() > 0) return tensors;
  return absl::InvalidArgumentError(
      "quantization_config is of NVFP4, MXFP4 or MXFP8; the checkpoint has no such weight");
}

absl::Status MicroscaledTensors::Add(const TensorInfo& codes) {
  const bool packed = codes.name.ends_with(kPackedEnding);
  if ((!packed && !codes.name.ends_with(kPlainEnding)) || (!IsBytes(codes) && (packed || !IsE4M3(codes)))) {
    return absl::OkStatus();
  }
  const std::string module = codes.name.substr(0, codes.name.size() - (packed ? kPackedEnding : kPlainEnding).size());
  std::optional<Matrix> matrix = MatrixOf(codes, module);
  if (!matrix) return absl::OkStatus();
  const Kind kind = matrix->kind;
  const TensorInfo* scales = matrix->scales;
  const int64_t group = GroupOf(kind);
  const int64_t per_byte = kind == Kind::kMxFp8 ? 1 : 2;
  if (codes.shape.size() != 2 || codes.shape[1] * per_byte % group != 0) {
    return UnexpectedTensor(codes, absl::StrCat("[rows, columns / ", per_byte, "], columns in groups of ", group));
  }
  const int64_t columns = codes.shape[1] * per_byte;
  const std::vector<int64_t> of_scales = {codes.shape[0], columns / group};
  if (scales->shape != of_scales) return UnexpectedTensor(*scales, ShapeText(of_scales));
  if (kind == Kind::kNvFp4) {
    const absl::StatusOr<float> factor = ReadFactor(module, packed);
    if (!factor.ok()) return factor.status();
    matrix->factor = *factor;
  }
  std::string name = module + std::string(kPlainEnding);
  if (Derives(name)) return absl::InvalidArgumentError(absl::StrCat("weight '", name, "' is quantised twice"));
  Derive(std::move(name), TensorDTypeOf(kind == Kind::kNvFp4 ? DType::kF32 : DType::kBF16), {codes.shape[0], columns},
         codes);
  matrices_.push_back(*matrix);
  Hide(scales);
  for (const char* ending : {".input_scale", ".input_global_scale"}) Hide(stored().Find(absl::StrCat(module, ending)));
  return absl::OkStatus();
}

std::optional<MicroscaledTensors::Matrix> MicroscaledTensors::MatrixOf(const TensorInfo& codes,
                                                                       const std::string& module) const {
  const bool packed = codes.name.ends_with(kPackedEnding);
  const TensorInfo* scales = stored().Find(absl::StrCat(module, kScaleEnding));
  if (scales == nullptr && !packed && IsBytes(codes)) {
    scales = stored().Find(absl::StrCat(module, kDeepseekScaleEnding));
    if (scales == nullptr || !IsExponents(*scales)) return std::nullopt;
    return Matrix{.kind = Kind::kMxFp4, .scales = scales};
  }
  if (scales == nullptr) return std::nullopt;
  if (IsE4M3(codes)) return IsExponents(*scales) ? std::optional(Matrix{Kind::kMxFp8, scales}) : std::nullopt;
  if (IsE4M3(*scales)) return Matrix{.kind = Kind::kNvFp4, .scales = scales};
  return packed && IsExponents(*scales) ? std::optional(Matrix{Kind::kMxFp4, scales}) : std::nullopt;
}

absl::StatusOr<float> MicroscaledTensors::ReadFactor(const std::string& module, bool reciprocal) {
  const std::string name = absl::StrCat(module, reciprocal ? ".weight_global_scale" : ".weight_scale_2");
  const TensorInfo* tensor = stored().Find(name);
  if (tensor == nullptr) return absl::InvalidArgumentError(absl::StrCat("tensor '", name, "' is missing"));
  float value = 0.0F;
  if (tensor->dtype->loadable != DType::kF32 || tensor->end - tensor->begin != sizeof(value)) {
    return UnexpectedTensor(*tensor, "F32 [] or [1]");
  }
  absl::Status status = stored().Read(*tensor, 0, std::as_writable_bytes(std::span(&value, 1)));
  if (!status.ok()) return status;
  const float factor = reciprocal ? 1.0F / value : value;
  if (!std::isfinite(value) || !std::isfinite(factor) || !(factor > 0.0F)) {
    return absl::InvalidArgumentError(
        absl::StrCat(stored().FileOf(*tensor), ": tensor '", name, "' is ", value, "; a scale is finite and above 0"));
  }
  Hide(tensor);
  return factor;
}

absl::Status MicroscaledTensors::CheckScales(const Matrix& matrix, int64_t first_row,
                                             const std::vector<std::byte>& scales) const {
  const int limit = matrix.kind == Kind::kMxFp8 ? kMaxE4M3Exponent : kMaxE2M1Exponent;
  const int64_t per_row = matrix.scales->shape[1];
  for (size_t i = 0; i < scales.size(); ++i) {
    const int scale = std::to_integer<int>(scales[i]);
    const bool nv = matrix.kind == Kind::kNvFp4;
    if (nv ? (scale & 0x7F) != 0x7F : scale <= limit) continue;
    const int64_t row = first_row + static_cast<int64_t>(i) / per_row;
    return absl::InvalidArgumentError(absl::StrCat(
        stored().FileOf(*matrix.scales), ": tensor '", matrix.scales->name, "' has ", nv ? "NaN" : absl::StrCat(scale),
        " in row ", row, nv ? "; a scale is a number" : absl::StrCat("; limit of an E8M0 scale is ", limit)));
  }
  return absl::OkStatus();
}

absl::StatusOr<MicroscaledTensors::StoredRows> MicroscaledTensors::ReadStored(size_t index, int64_t first_row,
                                                                              int64_t num_rows) const {
  const Matrix& matrix = matrices_[index];
  StoredRows rows;
  for (const auto& [tensor, bytes] : {std::pair{&Source(index), &rows.codes}, {matrix.scales, &rows.scales}}) {
    bytes->resize(static_cast<size_t>(num_rows * tensor->shape[1]));
    absl::Status status = stored().Read(*tensor, static_cast<uint64_t>(first_row * tensor->shape[1]), *bytes);
    if (!status.ok()) return status;
  }
  if (absl::Status status = CheckScales(matrix, first_row, rows.scales); !status.ok()) return status;
  return rows;
}

absl::StatusOr<std::vector<float>> MicroscaledTensors::Values(size_t index, int64_t first_row, int64_t num_rows) const {
  const absl::StatusOr<StoredRows> rows = ReadStored(index, first_row, num_rows);
  if (!rows.ok()) return rows.status();
  const Matrix& matrix = matrices_[index];
  std::vector<float> values(static_cast<size_t>(num_rows * Info(index).shape[1]));
  const auto group = static_cast<size_t>(GroupOf(matrix.kind));
  for (size_t i = 0; i < values.size(); ++i) {
    const auto scale = std::to_integer<uint8_t>(rows->scales[i / group]);
    switch (matrix.kind) {
      case Kind::kNvFp4:  // halves as in ReadCodes
        values[i] =
            0.5F * matrix.factor * kernels::E4M3ToFloat(scale) * static_cast<float>(HalvesOfE2M1(rows->codes, i));
        break;
      case Kind::kMxFp4:
        values[i] = std::ldexp(static_cast<float>(HalvesOfE2M1(rows->codes, i)), scale - 128);
        break;
      case Kind::kMxFp8:
        values[i] = std::ldexp(kernels::E4M3ToFloat(std::to_integer<uint8_t>(rows->codes[i])), scale - 127);
        break;
    }
  }
  return values;
}

absl::Status MicroscaledTensors::ReadDerived(size_t index, uint64_t first_byte, std::span<std::byte> out) const {
  const TensorInfo& tensor = Info(index);
  const uint64_t row_bytes = static_cast<uint64_t>(tensor.shape[1]) * tensor.dtype->bits / 8;
  const auto first_row = static_cast<int64_t>(first_byte / row_bytes);
  const auto end_row = static_cast<int64_t>((first_byte + out.size() + row_bytes - 1) / row_bytes);
  const absl::StatusOr<std::vector<float>> values = Values(index, first_row, end_row - first_row);
  if (!values.ok()) return values.status();
  const uint64_t skipped = first_byte - static_cast<uint64_t>(first_row) * row_bytes;
  if (tensor.dtype->loadable == DType::kF32) {
    std::memcpy(out.data(), reinterpret_cast<const std::byte*>(values->data()) + skipped, out.size());
    return absl::OkStatus();
  }
  std::vector<uint16_t> words(values->size());
  std::transform(values->begin(), values->end(), words.begin(), kernels::FloatToBf16);
  std::memcpy(out.data(), reinterpret_cast<const std::byte*>(words.data()) + skipped, out.size());
  return absl::OkStatus();
}

std::optional<kernels::CodeTraits> MicroscaledTensors::DerivedCodes(size_t index) const {
  const Kind kind = matrices_[index].kind;
  if (kind == Kind::kMxFp8) return std::nullopt;
  // Of NVFP4 one factor a row.
  const int64_t blocks =
      kind == Kind::kNvFp4 ? (Info(index).shape[1] + kernels::kSuperBlock - 1) / kernels::kSuperBlock : 1;
  return kernels::CodeTraits{.code_min = -12,
                             .code_max = 12,
                             .group = 16,
                             .block = static_cast<int32_t>(blocks) * kernels::kSuperBlock,
                             .scales = true,
                             .minimums = false,
                             .zero_points = false,
                             .wide = true,
                             .levels = CodeLevels::kE2M1,
                             .e4m3_scales = true};
}

absl::Status MicroscaledTensors::ReadDerivedCodes(size_t index, int64_t first_row, int64_t num_rows,
                                                  CodedRows* out) const {
  const absl::StatusOr<StoredRows> rows = ReadStored(index, first_row, num_rows);
  if (!rows.ok()) return rows.status();
  out->Resize(*DerivedCodes(index), num_rows, Info(index).shape[1]);
  for (size_t i = 0; i < out->codes.size(); ++i) out->codes[i] = HalvesOfE2M1(rows->codes, i);
  if (matrices_[index].kind == Kind::kMxFp4) {
    SplitScales(*rows, Info(index).shape[1] / kMxGroup, out);
    return absl::OkStatus();
  }
  std::memcpy(out->scales.data(), rows->scales.data(), rows->scales.size());
  std::fill(out->wide_factors.begin(), out->wide_factors.end(), 0.5F * matrices_[index].factor);
  return absl::OkStatus();
}

// Of the groups that share a factor the largest scale becomes 2^kLargestPower; groups of zeros may have any.
void MicroscaledTensors::SplitScales(const StoredRows& rows, int64_t groups_of_row, CodedRows* out) {
  constexpr int64_t kBlockGroups = kernels::kSuperBlock / kMxGroup;
  const auto num_groups = static_cast<int64_t>(rows.scales.size());
  const auto scale_of = [&](int64_t group) { return std::to_integer<int>(rows.scales[static_cast<size_t>(group)]); };
  size_t block = 0;
  for (int64_t begin = 0, end = 0; begin < num_groups; begin = end, ++block) {
    end = std::min((begin / groups_of_row + 1) * groups_of_row, begin + kBlockGroups);
    int largest = 0;
    for (int64_t group = begin; group < end; ++group) {
      const std::span<const int8_t> codes =
          std::span(out->codes).subspan(static_cast<size_t>(group * kMxGroup), kMxGroup);
      const bool zero = std::all_of(codes.begin(), codes.end(), [](int8_t code) { return code == 0; });
      if (!zero) largest = std::max(largest, scale_of(group));
    }
    out->wide_factors[block] = std::ldexp(0.5F, largest - 127 - kLargestPower);
    for (int64_t group = begin; group < end; ++group) {
      const int below = std::clamp(largest - scale_of(group), 0, kPowerRange);
      const uint8_t scale = kernels::FloatToE4M3(std::ldexp(1.0F, kLargestPower - below));
      for (const int64_t half : {0, 1}) out->scales[static_cast<size_t>(2 * group + half)] = static_cast<int8_t>(scale);
      const int shift =
          largest - scale_of(group) - kPowerRange;  // above 0: E2M1 has the quotients of its codes, rounded
      for (int64_t i = group * kMxGroup; shift > 0 && i < (group + 1) * kMxGroup; ++i) {
        int8_t& code = out->codes[static_cast<size_t>(i)];
        code = static_cast<int8_t>(std::nearbyint(std::ldexp(static_cast<float>(code), -shift)));
      }
    }
  }
}

std::string MicroscaledTensors::WhyNoDerivedCodes(size_t index) const {
  return matrices_[index].kind == Kind::kMxFp8 ? "MXFP8 has no products of its own; BF16 holds its values" : "";
}

}  // namespace dunlin::engine

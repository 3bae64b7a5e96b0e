// SPDX-License-Identifier: Apache-2.0
#include "engine/model/checkpoint/padded_heads.h"

#include <algorithm>
#include <cstring>

#include "absl/strings/str_cat.h"

namespace dunlin::engine {

absl::StatusOr<std::unique_ptr<TensorSource>> PaddedHeads::Open(std::unique_ptr<TensorSource> stored,
                                                                const std::vector<Matrix>& matrices, int64_t stored_dim,
                                                                int64_t head_dim) {
  std::unique_ptr<PaddedHeads> heads(new PaddedHeads(std::move(stored)));
  for (const Matrix& matrix : matrices) {
    if (absl::Status status = heads->Add(matrix, stored_dim, head_dim); !status.ok()) return status;
  }
  return heads;
}

absl::Status PaddedHeads::Add(const Matrix& matrix, int64_t stored_dim, int64_t head_dim) {
  const TensorInfo* tensor = stored().Find(matrix.name);
  if (tensor == nullptr) return absl::OkStatus();
  if (tensor->shape.size() != 2 || tensor->shape[matrix.columns ? 1 : 0] % stored_dim != 0) {
    return absl::InvalidArgumentError(absl::StrCat("tensor '", matrix.name, "' has ",
                                                   matrix.columns ? "columns" : "rows", " that are no whole heads of ",
                                                   stored_dim));
  }
  if (tensor->dtype->loadable == kernels::DType::kF8E4M3) {
    return absl::InvalidArgumentError(
        absl::StrCat("tensor '", matrix.name, "' is F8_E4M3; of heads with other widths of V wider dtypes are loaded"));
  }
  std::vector<int64_t> shape = tensor->shape;
  int64_t& heads = shape[matrix.columns ? 1 : 0];
  heads = heads / stored_dim * head_dim;
  const uint64_t unit = (matrix.columns ? 1 : static_cast<uint64_t>(shape[1])) * tensor->dtype->bits / 8;
  blocks_.push_back({.block_bytes = unit * static_cast<uint64_t>(head_dim),
                     .stored_bytes = unit * static_cast<uint64_t>(stored_dim)});
  Derive(matrix.name, *tensor->dtype, std::move(shape), *tensor);
  return absl::OkStatus();
}

// The stored parts of all blocks that are touched are read at once.
absl::Status PaddedHeads::ReadDerived(size_t index, uint64_t first_byte, std::span<std::byte> out) const {
  const auto [block_bytes, stored_bytes] = blocks_[index];
  const uint64_t begin = first_byte / block_bytes;
  const uint64_t end = (first_byte + out.size() + block_bytes - 1) / block_bytes;
  std::vector<std::byte> bytes((end - begin) * stored_bytes);
  absl::Status status = stored().Read(Source(index), begin * stored_bytes, bytes);
  if (!status.ok()) return status;
  for (uint64_t done = 0; done < out.size();) {
    const uint64_t at = first_byte + done;
    const uint64_t in_block = at % block_bytes;
    const bool zeros = in_block >= stored_bytes;
    const uint64_t count = std::min((zeros ? block_bytes : stored_bytes) - in_block, uint64_t{out.size() - done});
    if (zeros) {
      std::memset(out.data() + done, 0, count);
    } else {
      const uint64_t block = at / block_bytes - begin;
      std::memcpy(out.data() + done, bytes.data() + block * stored_bytes + in_block, count);
    }
    done += count;
  }
  return absl::OkStatus();
}

std::string PaddedHeads::WhyNoDerivedCodes(size_t index) const {
  return stored().CodesOf(Source(index)).has_value() ? "zeros follow its heads of V"
                                                     : stored().WhyNoCodes(Source(index));
}

}  // namespace dunlin::engine

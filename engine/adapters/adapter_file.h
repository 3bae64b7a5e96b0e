// SPDX-License-Identifier: Apache-2.0
// An adapter on disk: its pairs of matrices by module. Nothing is read but headers until a matrix's Read. The files
// stay open as long as something refers to a matrix. Thread rule: one thread.
// Source: save_pretrained of the package peft, 0.21; the keys general.type, adapter.type and adapter.lora.alpha of the
// package gguf, and how llama.cpp applies them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "kernels/api/dtype.h"

namespace dunlin::engine {

struct AdapterMatrix {
  std::string tensor;  // its name; empty: the file lacks it
  std::string file;
  std::vector<int64_t> shape;
  kernels::DType dtype = kernels::DType::kF32;  // kF32, kF16 or kBF16
  // Fills all bytes of the tensor. DATA_LOSS when they cannot be read.
  std::function<absl::Status(std::span<std::byte>)> read;
};

// down is lora_A, [rank, in_features]; up is lora_B, [out_features, rank]. Of all experts of a layer: PEFT's [experts *
// rank, in_features], of which expert e has the rows from e * rank on, and [out_features, rank * experts], of which it
// has every experts-th column from e on; of GGUF [experts, rank, in_features] and [experts, out_features, rank].
struct AdapterModule {
  // PEFT: after base_model.model., and of a parameter its own name, but "weight", after that of its module; GGUF: of
  // the base's tensor, without .weight.
  std::string name;
  AdapterMatrix down;
  AdapterMatrix up;
  int32_t rank = 0;  // that the config states, of each expert; 0: whatever the matrices have
  double alpha = 0.0;
  bool rank_stabilized = false;
};

// The modules of a PEFT directory, sorted by name. NOT_FOUND: a missing file. INVALID_ARGUMENT: a malformed one, as
// ParseAdapterConfig and OpenSafetensorsFile, a tensor that is no half of a module's pair, a dtype that is not loaded.
absl::StatusOr<std::vector<AdapterModule>> OpenPeftAdapter(const std::string& path);

// The modules of a GGUF file whose general.type is adapter. Errors as above, and as GgufFile::Open.
absl::StatusOr<std::vector<AdapterModule>> OpenGgufAdapter(const std::string& path);

}  // namespace dunlin::engine

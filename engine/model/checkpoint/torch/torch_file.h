// SPDX-License-Identifier: Apache-2.0
// A file of torch.save since PyTorch 1.6: a zip archive of a pickle and the storages of its tensors. Read without
// executing anything (pickle.h).
// Source: PyTorch 2, torch/serialization.py.
#pragma once

#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "engine/base/file.h"
#include "engine/model/checkpoint/checkpoint_file.h"

namespace dunlin::engine {

// The tensors of the state dictionary: the entry "model" or "state_dict" of the archive's root, or the root itself. A
// prefix "_orig_mod." (torch.compile) is dropped from names. INVALID_ARGUMENT, prefixed with the file's name: what
// ListZipEntries and ParsePickle refuse; no state dictionary; a tensor that is not contiguous, or not inside its
// storage; big-endian data.
absl::StatusOr<CheckpointFile> OpenTorchFile(const Directory& directory, std::string_view name);

// The config.json that nanoGPT's model_args in `name` amount to. INVALID_ARGUMENT: as above, or there are none.
absl::StatusOr<std::string> ReadNanoGptConfig(const Directory& directory, std::string_view name);

}  // namespace dunlin::engine

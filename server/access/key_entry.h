// SPDX-License-Identifier: Apache-2.0
// Makes the entries of a key file. Thread rule: any thread; of several processes that change one file at once, one
// does.
#pragma once

#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace dunlin::server {

// The entry with what a new one needs: the permission to infer, and all models, unless it says otherwise.
nlohmann::ordered_json CompleteEntry(nlohmann::ordered_json entry);

// A key file that has this entry, completed, too: text is a key file's, or empty. If the name has an entry already, the
// hashes of the new one join it, and the new one must have no more than name and hashes.
// Errors: INVALID_ARGUMENT, as KeySet::Parse, or for an entry that would change more than the hashes.
absl::StatusOr<std::string> WithEntry(const std::string& text, const nlohmann::ordered_json& entry,
                                      const std::string& where);

// Replaces the file by one with this entry, at once for every reader, with the permissions of the old one (0640 for a
// new one). Errors: as WithEntry and ReadKeyFile; ABORTED: another process is changing it, or one ended while it did,
// and left PATH.new; UNAVAILABLE: the folder cannot be written. show: called once the new text is on the disk, before
// it takes the file's place; its error is AddEntry's, and the file stays as it was.
absl::Status AddEntry(
    const std::string& path, const nlohmann::ordered_json& entry,
    const std::function<absl::Status()>& show = [] { return absl::OkStatus(); });

}  // namespace dunlin::server

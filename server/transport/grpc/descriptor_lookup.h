// SPDX-License-Identifier: Apache-2.0
// Answers to reflection queries, from protobuf's generated descriptor pool; independent of gRPC and of the protocol's
// version. Thread rule: any thread (the pool is const once the program runs).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace dunlin::server {

// Serialised FileDescriptorProtos: the file first, then all its transitive imports, without duplicates.
using DescriptorFiles = std::vector<std::string>;

// Errors of all: NOT_FOUND.
absl::StatusOr<DescriptorFiles> FilesByName(const std::string& file_name);
// Of a message, field, enum, enum value, service or method, by its full name.
absl::StatusOr<DescriptorFiles> FilesOfSymbol(const std::string& symbol);
absl::StatusOr<DescriptorFiles> FilesOfExtension(const std::string& containing_type, int32_t number);
// Ascending.
absl::StatusOr<std::vector<int32_t>> ExtensionNumbers(const std::string& containing_type);

}  // namespace dunlin::server

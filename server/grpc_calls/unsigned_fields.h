// SPDX-License-Identifier: Apache-2.0
// The core counts in int32 where contracts of other servers have uint32. Fronts of those refuse larger numbers here, by
// the client's own value; what they convert afterwards fits. Any thread.
#pragma once

#include <google/protobuf/message.h>

#include <initializer_list>
#include <string_view>

#include "absl/status/status.h"

namespace dunlin::server {

// INVALID_ARGUMENT for the first uint32 of the message, or of a message in it, that no int32 holds: a number, an entry
// of a list, or the key of a map of at most 4,096 entries. `but`: fields, by their plain names, that may have any
// number.
absl::Status CheckUnsignedFields(const google::protobuf::Message& message,
                                 std::initializer_list<std::string_view> but = {});

}  // namespace dunlin::server

// SPDX-License-Identifier: Apache-2.0
// What executes a request, as members of JSON bodies: device, attention backend, precision, drafts. Errors: a name that
// does not exist, where the limit lists those that do; another one than *choice has already. Pure functions, any
// thread.
#pragma once

#include "engine/request/types.h"
#include "server/json/json_value.h"

namespace dunlin::server {

void ReadDevice(const JsonValue& value, engine::ExecutionChoice* choice);
void ReadAttentionBackend(const JsonValue& value, engine::ExecutionChoice* choice);
void ReadPrecision(const JsonValue& value, engine::ExecutionChoice* choice);
// A word (engine/request/speculation.h) or a number.
void ReadSpeculation(const JsonValue& value, engine::ExecutionChoice* choice);

}  // namespace dunlin::server

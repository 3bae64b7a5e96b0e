// SPDX-License-Identifier: Apache-2.0
// The numeric parameters of sampling (engine/request/draw_params.h) as fields of protobuf messages, found by their
// names. Reading and writing: any thread.
#pragma once

#include <google/protobuf/descriptor.h>
#include <google/protobuf/message.h>

#include <array>

#include "engine/request/draw_params.h"
#include "server/serving/record/client_field.h"

namespace dunlin::server {

// Where the requests of an API have them.
class DrawParamFields {
 public:
  // request: the type of the messages. names: paths in it, "top_p" or "sampling.top_p"; what is no field of float,
  // int32 or uint32 is no parameter of this API.
  DrawParamFields(const google::protobuf::Descriptor& request, const FieldNames& names);

  // Sets what the message has. A field without presence that is 0 counts as absent where the parameter cannot be 0. An
  // unsigned number beyond int32 stays too large.
  void Read(const google::protobuf::Message& request, engine::DrawParamOverrides* out) const;

 private:
  struct Place {
    const google::protobuf::FieldDescriptor* parent = nullptr;  // a message of the request; null: the request itself
    const google::protobuf::FieldDescriptor* field = nullptr;   // null: there is none
  };
  std::array<Place, engine::kNumDrawParams> places_;  // in the order of the table
};

// Sets the fields, of float or int32, with the plain names of those parameters that a model has defaults for
// (config_low).
void WriteDrawParams(const kernels::DrawParams& defaults, google::protobuf::Message* message);

}  // namespace dunlin::server

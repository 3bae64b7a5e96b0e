// SPDX-License-Identifier: Apache-2.0
// Server reflection, v1 and v1alpha from one implementation: the two protocols differ only in their package name.
// (Debian's plugin supports only v1alpha, is synchronous and registers with every server it is linked into.)
// Thread rule: gRPC's threads; one message at a time is read and answered.
#pragma once

#include <grpcpp/support/server_callback.h>

#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "engine/base/string_view.h"
#include "grpc/reflection/v1/reflection.grpc.pb.h"
#include "grpc/reflection/v1alpha/reflection.grpc.pb.h"
#include "server/access/access_control.h"
#include "server/transport/grpc/call_access.h"
#include "server/transport/grpc/descriptor_lookup.h"
#include "server/transport/grpc/grpc_status.h"

namespace dunlin::server {

struct ReflectionV1 {
  static constexpr char kMethod[] = "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo";
  using Service = grpc::reflection::v1::ServerReflection;
  using Request = grpc::reflection::v1::ServerReflectionRequest;
  using Response = grpc::reflection::v1::ServerReflectionResponse;
};
struct ReflectionV1Alpha {
  static constexpr char kMethod[] = "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo";
  using Service = grpc::reflection::v1alpha::ServerReflection;
  using Request = grpc::reflection::v1alpha::ServerReflectionRequest;
  using Response = grpc::reflection::v1alpha::ServerReflectionResponse;
};

template <class Version>
class ReflectionService final : public Version::Service::CallbackService {
  using Request = typename Version::Request;
  using Response = typename Version::Response;

 public:
  // names: the services of the server. access and endpoints outlive the service.
  ReflectionService(std::vector<std::string> names, const AccessControl* access, const EndpointTable* endpoints)
      : names_(std::move(names)), access_(access), endpoints_(endpoints) {}

  void Answer(const Request& request, Response* response) const {
    response->set_valid_host(request.host());
    *response->mutable_original_request() = request;
    switch (request.message_request_case()) {
      case Request::kFileByFilename:
        return Files(FilesByName(request.file_by_filename()), response);
      case Request::kFileContainingSymbol:
        return Files(FilesOfSymbol(request.file_containing_symbol()), response);
      case Request::kFileContainingExtension: {
        const auto& extension = request.file_containing_extension();
        return Files(FilesOfExtension(extension.containing_type(), extension.extension_number()), response);
      }
      case Request::kAllExtensionNumbersOfType:
        return Extensions(request.all_extension_numbers_of_type(), response);
      case Request::kListServices:
        for (const std::string& name : names_)
          response->mutable_list_services_response()->add_service()->set_name(name);
        return;
      case Request::MESSAGE_REQUEST_NOT_SET:
        break;
    }
    Error(absl::InvalidArgumentError("message_request is not set"), response);
  }

 private:
  class Call;

  grpc::ServerBidiReactor<Request, Response>* ServerReflectionInfo(grpc::CallbackServerContext* context) override {
    return new Call(*this, CallerOf(*access_, *endpoints_, Version::kMethod, *context).status());
  }

  static void Files(const absl::StatusOr<DescriptorFiles>& files, Response* response) {
    if (!files.ok()) return Error(files.status(), response);
    auto* out = response->mutable_file_descriptor_response();
    for (const std::string& file : *files) out->add_file_descriptor_proto(file);
  }

  static void Extensions(const std::string& type, Response* response) {
    const absl::StatusOr<std::vector<int32_t>> numbers = ExtensionNumbers(type);
    if (!numbers.ok()) return Error(numbers.status(), response);
    auto* out = response->mutable_all_extension_numbers_response();
    out->set_base_type_name(type);
    out->mutable_extension_number()->Assign(numbers->begin(), numbers->end());
  }

  static void Error(const absl::Status& status, Response* response) {
    response->mutable_error_response()->set_error_code(static_cast<int>(status.code()));
    response->mutable_error_response()->set_error_message(std::string(engine::StdView(status.message())));
  }

  const std::vector<std::string> names_;
  const AccessControl* const access_;
  const EndpointTable* const endpoints_;
};

// Reads, answers and writes until the client closes the stream.
template <class Version>
class ReflectionService<Version>::Call final : public grpc::ServerBidiReactor<Request, Response> {
 public:
  // Ends with `refusal` if that is not OK.
  Call(const ReflectionService& service, const absl::Status& refusal) : service_(service) {
    if (refusal.ok()) {
      this->StartRead(&request_);
    } else {
      this->Finish(ToGrpcStatus(refusal));
    }
  }

 private:
  void OnReadDone(bool ok) override {
    if (!ok) return this->Finish(grpc::Status::OK);
    response_.Clear();
    service_.Answer(request_, &response_);
    this->StartWrite(&response_);
  }
  void OnWriteDone(bool ok) override {
    if (!ok) return this->Finish(grpc::Status::CANCELLED);
    this->StartRead(&request_);
  }
  void OnDone() override { delete this; }

  const ReflectionService& service_;
  Request request_;
  Response response_;
};

}  // namespace dunlin::server

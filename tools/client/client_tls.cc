// SPDX-License-Identifier: Apache-2.0
#include "tools/client/client_tls.h"

#include <grpc/impl/codegen/grpc_types.h>
#include <grpcpp/create_channel.h>
#include <grpcpp/security/credentials.h>
#include <grpcpp/support/client_interceptor.h>

#include <boost/asio/ssl/context.hpp>
#include <fstream>
#include <iterator>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"

namespace dunlin::tools {
namespace {

namespace ssl = boost::asio::ssl;
using boost::system::error_code;

std::string TextOf(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

absl::Status Fault(const char* option, const std::string& path, const error_code& error) {
  return absl::InvalidArgumentError(absl::StrCat(option, " ", path, ": ", error.message()));
}

using grpc::experimental::ClientInterceptorFactoryInterface;
using grpc::experimental::ClientRpcInfo;
using grpc::experimental::InterceptionHookPoints;
using grpc::experimental::Interceptor;
using grpc::experimental::InterceptorBatchMethods;

// Adds the key to the metadata of a call. gRPC's call credentials would be refused on a connection without TLS.
class KeyInterceptor final : public Interceptor {
 public:
  explicit KeyInterceptor(const std::string& authorization) : authorization_(authorization) {}
  void Intercept(InterceptorBatchMethods* methods) override {
    if (methods->QueryInterceptionHookPoint(InterceptionHookPoints::PRE_SEND_INITIAL_METADATA)) {
      methods->GetSendInitialMetadata()->insert({"authorization", authorization_});
    }
    methods->Proceed();
  }

 private:
  const std::string authorization_;
};

class KeyInterceptors final : public ClientInterceptorFactoryInterface {
 public:
  explicit KeyInterceptors(const std::string& key) : authorization_("Bearer " + key) {}
  Interceptor* CreateClientInterceptor(ClientRpcInfo* /*call*/) override { return new KeyInterceptor(authorization_); }

 private:
  const std::string authorization_;
};

std::shared_ptr<grpc::Channel> MakeChannel(const std::string& address,
                                           const std::shared_ptr<grpc::ChannelCredentials>& credentials,
                                           const std::string& api_key, const grpc::ChannelArguments& arguments) {
  if (api_key.empty()) return grpc::CreateCustomChannel(address, credentials, arguments);
  std::vector<std::unique_ptr<ClientInterceptorFactoryInterface>> interceptors;
  interceptors.push_back(std::make_unique<KeyInterceptors>(api_key));
  return grpc::experimental::CreateCustomChannelWithInterceptors(address, credentials, arguments,
                                                                 std::move(interceptors));
}

}  // namespace

absl::StatusOr<std::shared_ptr<ssl::context>> HttpContext(const ClientTls& tls) {
  if (tls.cert_file.empty() != tls.key_file.empty()) {
    return absl::InvalidArgumentError("--tls-cert and --tls-key must be given together");
  }
  auto context = std::make_shared<ssl::context>(ssl::context::tls_client);
  error_code error;
  SSL_CTX_set_min_proto_version(context->native_handle(), TLS1_2_VERSION);
  SSL_CTX_set_options(context->native_handle(), SSL_OP_IGNORE_UNEXPECTED_EOF);  // HTTP says where a body ends
  context->set_verify_mode(ssl::verify_peer, error);
  if (tls.ca_file.empty()) {
    context->set_default_verify_paths(error);
  } else if (context->load_verify_file(tls.ca_file, error); error) {
    return Fault("--tls-ca", tls.ca_file, error);
  }
  if (tls.cert_file.empty()) return context;
  context->use_certificate_chain_file(tls.cert_file, error);
  if (error) return Fault("--tls-cert", tls.cert_file, error);
  context->set_password_callback([](size_t, ssl::context::password_purpose) { return std::string(); }, error);
  context->use_private_key_file(tls.key_file, ssl::context::pem, error);
  if (error) return Fault("--tls-key", tls.key_file, error);
  return context;
}

absl::StatusOr<std::shared_ptr<grpc::Channel>> OpenChannel(const std::string& address, const ClientTls& tls,
                                                           const std::string& api_key,
                                                           grpc::ChannelArguments arguments) {
  if (!tls.enabled()) return MakeChannel(address, grpc::InsecureChannelCredentials(), api_key, arguments);
  // gRPC would say of a bad file only that it cannot connect.
  if (absl::Status status = HttpContext(tls).status(); !status.ok()) return status;
  grpc::SslCredentialsOptions options;
  if (!tls.ca_file.empty()) options.pem_root_certs = TextOf(tls.ca_file);
  if (!tls.cert_file.empty()) {
    options.pem_cert_chain = TextOf(tls.cert_file);
    options.pem_private_key = TextOf(tls.key_file);
  }
  if (!tls.server_name.empty()) arguments.SetSslTargetNameOverride(tls.server_name);
  return MakeChannel(address, grpc::SslCredentials(options), api_key, arguments);
}

}  // namespace dunlin::tools

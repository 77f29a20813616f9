// SPDX-License-Identifier: Apache-2.0
#include "runner/nft.h"

#include <nftables/libnftables.h>

#include <mutex>

#include "base/text.h"

namespace atl::runner {
namespace {

std::mutex& library() {
  static std::mutex mutex;
  return mutex;
}

}  // namespace

Result<nft_ctx*> make_nft_context() {
  std::lock_guard lock(library());
  nft_ctx* context = nft_ctx_new(NFT_CTX_DEFAULT);
  if (context == nullptr) return make_error(Code::kUnavailable, "libnftables cannot start");
  nft_ctx_buffer_output(context);
  nft_ctx_buffer_error(context);
  return context;
}

Result<std::string> run_nft(nft_ctx* context, const std::string& commands, bool terse) {
  std::lock_guard lock(library());
  nft_ctx_output_set_flags(context, terse ? NFT_CTX_OUTPUT_TERSE | NFT_CTX_OUTPUT_STATELESS : 0);
  if (nft_run_cmd_from_buffer(context, commands.c_str()) == 0)
    return std::string(nft_ctx_get_output_buffer(context));
  std::string_view reason = nft_ctx_get_error_buffer(context);
  return make_error(Code::kInternal, "nftables: {}", trim(reason.substr(0, reason.find('\n'))));
}

}  // namespace atl::runner

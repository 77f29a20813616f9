// SPDX-License-Identifier: Apache-2.0
#include "gateway/upstream/decoder.h"

#include <brotli/decode.h>
#include <zlib.h>
#include <zstd.h>

#include <optional>

#include "base/text.h"

namespace atl::gateway {
namespace {
constexpr int kAnyZlib = 15 + 32;  // gzip or zlib, told apart by the first bytes
constexpr int kRawDeflate = -15;
constexpr int kZstdWindowLog = 23;  // 8 MiB, what RFC 8878 asks of everybody

Error corrupt(std::string_view coding) {
  return make_error(Code::kCorrupt, "the answer's body is not {} as it says", coding);
}

class ZlibDecoder final : public Decoder {
 public:
  explicit ZlibDecoder(bool gzip) : gzip_(gzip) {}
  ~ZlibDecoder() override {
    if (ready_) inflateEnd(&z_);
  }

  void give(std::string_view in) override {
    z_.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(in.data()));
    z_.avail_in = static_cast<uInt>(in.size());
  }

  Result<void> finish() override {
    if (!started_ || ended_) return success();
    return corrupt(name());
  }

 protected:
  Result<std::size_t> decode(std::span<char> out) override {
    z_.next_out = reinterpret_cast<Bytef*>(out.data());
    z_.avail_out = static_cast<uInt>(out.size());
    while (z_.avail_in > 0 && z_.avail_out > 0) {
      TRY_VOID(begin());
      int status = inflate(&z_, Z_NO_FLUSH);
      if (status == Z_STREAM_END) {
        ended_ = true;
        continue;
      }
      if (status != Z_OK) return corrupt(name());
    }
    // With no input left there may be output that did not fit before.
    if (z_.avail_out == out.size() && ready_ && !ended_ && z_.avail_in == 0 && full_) {
      int status = inflate(&z_, Z_NO_FLUSH);
      if (status == Z_STREAM_END) ended_ = true;
      if (status != Z_OK && status != Z_STREAM_END && status != Z_BUF_ERROR) return corrupt(name());
    }
    full_ = z_.avail_out == 0;
    return out.size() - z_.avail_out;
  }

 private:
  std::string_view name() const { return gzip_ ? "gzip" : "deflate"; }

  // Some servers mean raw deflate by "deflate"; the first byte tells (RFC 1950 §2.2: its low half is 8).
  // After the end of one gzip member another one may follow; nothing may follow anything else.
  Result<void> begin() {
    started_ = true;
    if (ready_ && !ended_) return success();
    if (ended_ && !gzip_) return corrupt(name());
    bool raw = !gzip_ && (*z_.next_in & 0x0f) != 8;
    int status = ready_ ? inflateReset(&z_)
                        : inflateInit2(&z_, gzip_ ? 15 + 16
                                            : raw ? kRawDeflate
                                                  : kAnyZlib);
    if (status != Z_OK) return make_error(Code::kInternal, "decode {}: out of memory", name());
    ready_ = true;
    ended_ = false;
    return success();
  }

  z_stream z_{};
  const bool gzip_;
  bool ready_ = false;
  bool started_ = false;
  bool ended_ = false;
  bool full_ = false;  // the last call has filled its output
};

class BrotliDecoder final : public Decoder {
 public:
  BrotliDecoder() : state_(BrotliDecoderCreateInstance(nullptr, nullptr, nullptr)) {}
  ~BrotliDecoder() override { BrotliDecoderDestroyInstance(state_); }
  BrotliDecoder(const BrotliDecoder&) = delete;
  BrotliDecoder& operator=(const BrotliDecoder&) = delete;

  void give(std::string_view in) override {
    next_ = reinterpret_cast<const std::uint8_t*>(in.data());
    left_ = in.size();
    started_ |= left_ > 0;
  }
  Result<void> finish() override {
    if (!started_ || BrotliDecoderIsFinished(state_) == BROTLI_TRUE) return success();
    return corrupt("br");
  }

 protected:
  Result<std::size_t> decode(std::span<char> out) override {
    if (state_ == nullptr) return make_error(Code::kInternal, "decode br: out of memory");
    if (BrotliDecoderIsFinished(state_) == BROTLI_TRUE) {
      if (left_ > 0) return corrupt("br");
      return std::size_t{0};
    }
    auto* at = reinterpret_cast<std::uint8_t*>(out.data());
    auto space = out.size();
    auto status = BrotliDecoderDecompressStream(state_, &left_, &next_, &space, &at, nullptr);
    if (status == BROTLI_DECODER_RESULT_ERROR) return corrupt("br");
    return out.size() - space;
  }

 private:
  BrotliDecoderState* state_;
  const std::uint8_t* next_ = nullptr;
  std::size_t left_ = 0;
  bool started_ = false;
};

class ZstdDecoder final : public Decoder {
 public:
  ZstdDecoder() : stream_(ZSTD_createDStream()) {
    if (stream_ != nullptr) ZSTD_DCtx_setParameter(stream_, ZSTD_d_windowLogMax, kZstdWindowLog);
  }
  ~ZstdDecoder() override { ZSTD_freeDStream(stream_); }
  ZstdDecoder(const ZstdDecoder&) = delete;
  ZstdDecoder& operator=(const ZstdDecoder&) = delete;

  void give(std::string_view in) override { in_ = {in.data(), in.size(), 0}; }
  Result<void> finish() override {
    if (between_) return success();
    return corrupt("zstd");
  }

 protected:
  Result<std::size_t> decode(std::span<char> out) override {
    if (stream_ == nullptr) return make_error(Code::kInternal, "decode zstd: out of memory");
    ZSTD_outBuffer to{out.data(), out.size(), 0};
    while (to.pos < to.size && (in_.pos < in_.size || full_)) {
      full_ = false;
      auto hint = ZSTD_decompressStream(stream_, &to, &in_);
      if (ZSTD_isError(hint) != 0) return corrupt("zstd");
      between_ = hint == 0;
    }
    full_ = to.pos == to.size && !between_;
    return to.pos;
  }

 private:
  ZSTD_DStream* stream_;
  ZSTD_inBuffer in_{};
  bool between_ = true;  // at the end of a frame, or before the first
  bool full_ = false;    // there may be more output without more input
};
}  // namespace

Result<std::size_t> Decoder::read(std::span<char> out) {
  TRY(std::size_t count, decode(out));
  total_ += count;
  if (total_ > kMaxOutput) return make_error(Code::kTooLarge, "the answer's body unpacks to too much");
  return count;
}

std::string content_coding(const http::Headers& answer) {
  std::string out;
  for (const auto& field : answer) {
    if (field.name == "content-encoding") out.append(out.empty() ? "" : ", ").append(field.value);
  }
  return out;
}

Result<std::unique_ptr<Decoder>> make_decoder(std::string_view coding) {
  auto name = to_lower(trim(coding));
  if (name.empty() || name == "identity") return std::unique_ptr<Decoder>();
  if (name == "gzip" || name == "x-gzip")
    return std::unique_ptr<Decoder>(std::make_unique<ZlibDecoder>(true));
  if (name == "deflate") return std::unique_ptr<Decoder>(std::make_unique<ZlibDecoder>(false));
  if (name == "br") return std::unique_ptr<Decoder>(std::make_unique<BrotliDecoder>());
  if (name == "zstd") return std::unique_ptr<Decoder>(std::make_unique<ZstdDecoder>());
  return make_error(Code::kUnsupported, "the answer has the unknown content coding '{}'",
                    printable(coding.substr(0, 64)));
}

}  // namespace atl::gateway

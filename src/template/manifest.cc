// SPDX-License-Identifier: Apache-2.0
#include "template/manifest.h"

#include <algorithm>
#include <limits>

#include <boost/json.hpp>

#include "base/bytes.h"
#include "base/text.h"

namespace atl::templates {
namespace json = boost::json;
namespace {

constexpr std::size_t kMaxManifestBytes = 64 * 1024;
constexpr std::size_t kUuidBytes = 36;
constexpr std::size_t kMaxTemplateNameBytes = 64;

bool lower_or_digit(char c) { return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9'); }

class Fields {
 public:
  explicit Fields(const json::object& object) : object_(object) {}

  Result<std::string> text(std::string_view key) const {
    const json::value* value = object_.if_contains(key);
    if (value == nullptr || !value->is_string()) return missing(key, "a text");
    return std::string(value->get_string());
  }

  template <class T>
  Result<T> number(std::string_view key) const {
    const json::value* value = object_.if_contains(key);
    if (value == nullptr || !value->is_int64() || value->get_int64() < 0 ||
        static_cast<std::uint64_t>(value->get_int64()) > std::numeric_limits<T>::max()) {
      return missing(key, "a whole number");
    }
    return static_cast<T>(value->get_int64());
  }

 private:
  static Error missing(std::string_view key, std::string_view kind) {
    return make_error(Code::kCorrupt, "manifest: field '{}' must be {}", key, kind);
  }
  const json::object& object_;
};

Result<void> check(const Manifest& manifest) {
  if (!valid_build_id(manifest.build)) return make_error(Code::kCorrupt, "manifest: 'buildId' is not a UUID");
  if (!valid_template_name(manifest.name))
    return make_error(Code::kCorrupt, "manifest: 'name' is not a template name");
  if (manifest.sha256.size() != 64 || !hex_decode(manifest.sha256)) {
    return make_error(Code::kCorrupt, "manifest: 'sha256' is not a SHA-256 in hex");
  }
  return success();
}

}  // namespace

bool valid_template_name(std::string_view name) {
  if (name.empty() || name.size() > kMaxTemplateNameBytes || !lower_or_digit(name.front())) return false;
  return std::all_of(name.begin(), name.end(),
                     [](char c) { return lower_or_digit(c) || c == '-' || c == '_'; });
}

bool valid_build_id(std::string_view id) {
  if (id.size() != kUuidBytes) return false;
  for (std::size_t i = 0; i < id.size(); ++i) {
    bool dash = i == 8 || i == 13 || i == 18 || i == 23;
    if (dash ? id[i] != '-' : !((id[i] >= '0' && id[i] <= '9') || (id[i] >= 'a' && id[i] <= 'f')))
      return false;
  }
  return true;
}

std::string format_manifest(const Manifest& m) {
  std::string text = "{\n";
  auto line = [&](std::string_view key, const std::string& value) {
    text += fmt::format("  \"{}\": {},\n", key, value);
  };
  line("version", std::to_string(kManifestVersion));
  line("buildId", json_quote(m.build));
  line("name", json_quote(m.name));
  line("source", json_quote(m.source));
  line("suite", json_quote(m.suite));
  line("recipe", json_quote(m.recipe));
  line("createdAt", json_quote(format_rfc3339(m.created)));
  line("defaultUser", json_quote(m.default_user));
  line("workdir", json_quote(m.workdir));
  line("cpuCount", std::to_string(m.cpu_count));
  line("memoryMB", std::to_string(m.memory_mb));
  line("diskSizeMB", std::to_string(m.disk_mb));
  line("sizeBytes", std::to_string(m.size_bytes));
  return text + fmt::format("  \"sha256\": {}\n}}\n", json_quote(m.sha256));
}

Result<Manifest> parse_manifest(std::string_view text) {
  if (text.size() > kMaxManifestBytes) return make_error(Code::kCorrupt, "manifest: larger than 64 KiB");
  boost::system::error_code failed;
  json::value parsed = json::parse(json::string_view(text.data(), text.size()), failed);
  if (failed || !parsed.is_object()) return make_error(Code::kCorrupt, "manifest: not a JSON object");
  Fields fields(parsed.get_object());
  TRY(int version, fields.number<int>("version"));
  if (version != kManifestVersion) {
    return make_error(Code::kCorrupt, "manifest: version {} is not known to this Atoll", version);
  }
  Manifest m;
  TRY(m.build, fields.text("buildId"));
  TRY(m.name, fields.text("name"));
  TRY(m.source, fields.text("source"));
  TRY(m.suite, fields.text("suite"));
  TRY(m.recipe, fields.text("recipe"));
  TRY(std::string created, fields.text("createdAt"));
  std::optional<WallTime> time = parse_rfc3339(created);
  if (!time) return make_error(Code::kCorrupt, "manifest: 'createdAt' is not a time");
  m.created = *time;
  TRY(m.default_user, fields.text("defaultUser"));
  TRY(m.workdir, fields.text("workdir"));
  TRY(m.cpu_count, fields.number<std::uint32_t>("cpuCount"));
  TRY(m.memory_mb, fields.number<std::uint32_t>("memoryMB"));
  TRY(m.disk_mb, fields.number<std::uint32_t>("diskSizeMB"));
  TRY(m.size_bytes, fields.number<std::uint64_t>("sizeBytes"));
  TRY(m.sha256, fields.text("sha256"));
  TRY_VOID(check(m));
  return m;
}

}  // namespace atl::templates

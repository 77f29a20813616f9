// SPDX-License-Identifier: Apache-2.0
#include "model/record.h"

#include <algorithm>

namespace atl::model {
namespace {

bool lower_or_digit(char c) { return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9'); }

bool valid_name(std::string_view text, std::string_view extra) {
  return !text.empty() && text.size() <= 128 && std::all_of(text.begin(), text.end(), [extra](char c) {
    return lower_or_digit(c) || extra.find(c) != std::string_view::npos;
  });
}

}  // namespace

std::string_view role_name(Role role) { return role == Role::kAdmin ? "admin" : "member"; }

std::string_view pause_cause_name(PauseCause cause) {
  switch (cause) {
    case PauseCause::kDeadline: return "deadline";
    case PauseCause::kIdle: return "idle";
    default: return "asked";
  }
}

bool valid_uuid(std::string_view text) {
  if (text.size() != 36) return false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    bool dash = i == 8 || i == 13 || i == 18 || i == 23;
    bool hex = (text[i] >= '0' && text[i] <= '9') || (text[i] >= 'a' && text[i] <= 'f');
    if (dash ? text[i] != '-' : !hex) return false;
  }
  return true;
}

Result<TemplateRef> parse_template_ref(std::string_view text) {
  TemplateRef ref;
  std::string_view rest = text;
  if (std::size_t slash = rest.find('/'); slash != std::string_view::npos) {
    ref.name_space = rest.substr(0, slash);
    rest.remove_prefix(slash + 1);
    if (!valid_name(ref.name_space, "-_")) {
      return make_error(
          Code::kInvalid,
          "template name: the namespace before '/' must be lower-case letters, digits, '-' or '_'");
    }
  }
  if (std::size_t colon = rest.find(':'); colon != std::string_view::npos) {
    ref.tag = rest.substr(colon + 1);
    rest = rest.substr(0, colon);
    if (!valid_name(ref.tag, "-_.") || valid_uuid(ref.tag)) {
      return make_error(Code::kInvalid,
                        "template name: the tag after ':' must be lower-case letters, digits, '-', '_' or "
                        "'.', and no UUID");
    }
  }
  ref.alias = rest;
  if (!valid_name(ref.alias, "-_")) {
    return make_error(Code::kInvalid, "template name: must be lower-case letters, digits, '-' or '_'");
  }
  return ref;
}

}  // namespace atl::model

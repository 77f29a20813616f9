// SPDX-License-Identifier: Apache-2.0
#include "control/catalog.h"

#include <sys/stat.h>

#include <algorithm>
#include <cerrno>

#include "base/random.h"
#include "model/known_templates.h"
#include "store/templates.h"

namespace atl::control {
namespace {

Error unknown_template(std::string_view name) {
  if (name == model::kInterpreterTemplate) {
    // Clients show only the message, and this one is not there because nobody has asked for it before.
    return make_error(Code::kNotFound,
                      "template '{0}' is not built yet: 'sudo atoll template build {0}' on the server builds "
                      "it in a few "
                      "minutes",
                      name)
        .with_word("template_not_built");
  }
  return make_error(Code::kNotFound, "template '{}' not found", name)
      .with_word("template_not_found")
      .with_hint("'atoll template list' shows what there is; 'atoll up' builds 'base' at its first start");
}

bool may_use(const model::Template& row, const std::string& tenant) {
  return row.is_public || row.tenant == tenant;
}

}  // namespace

Result<void> Catalog::load() {
  TRY(auto stored, db_.run_blocking([](store::Connection& db) { return store::load_templates(db); }));
  for (auto& row : stored.templates) templates_.emplace(row.id, row);
  for (auto& row : stored.builds) builds_.emplace(row.id, row);
  return {};
}

const model::Template* Catalog::find(const std::string& tenant, std::string_view name_or_id) const {
  auto by_id = templates_.find(std::string(name_or_id));
  if (by_id != templates_.end()) return may_use(by_id->second, tenant) ? &by_id->second : nullptr;
  auto ref = model::parse_template_ref(name_or_id);
  if (!ref) return nullptr;
  for (const auto& [id, row] : templates_) {
    bool named = row.alias == ref->alias && (ref->name_space.empty() || row.name_space == ref->name_space);
    if (named && may_use(row, tenant)) return &row;
  }
  return nullptr;
}

const model::Build* Catalog::build(const std::string& id) const {
  auto found = builds_.find(id);
  return found == builds_.end() ? nullptr : &found->second;
}

Error Catalog::absent(std::string_view reference) const {
  if (first_use_ && FirstUse::knows(reference)) return first_use_->ask(std::string(reference));
  return unknown_template(reference);
}

Result<Resolved> Catalog::resolve(const std::string& tenant, std::string_view reference) const {
  TRY(model::TemplateRef ref, model::parse_template_ref(reference));
  std::string name = ref.name_space.empty() ? ref.alias : ref.name_space + "/" + ref.alias;
  const model::Template* row = find(tenant, name);
  if (!row) return absent(reference);
  auto tag = row->tags.find(ref.tag);
  if (tag == row->tags.end()) return absent(reference);
  const model::Build* found = build(tag->second);
  if (!found) return absent(reference);
  return Resolved{*row, *found, std::string(), {}, model::Tier::kContainer};
}

std::vector<FirstUse::Build> Catalog::missing_builds() const {
  std::vector<FirstUse::Build> out;
  if (first_use_) out = first_use_->builds();
  // What was built by hand meanwhile is not missing, whatever a note says.
  std::erase_if(out, [&](const FirstUse::Build& build) {
    return std::any_of(templates_.begin(), templates_.end(), [&](const auto& entry) {
      return entry.second.is_public && entry.second.alias == build.name;
    });
  });
  return out;
}

std::vector<model::Template> Catalog::list(const std::string& tenant) const {
  std::vector<model::Template> out;
  for (const auto& [id, row] : templates_) {
    if (may_use(row, tenant)) out.push_back(row);
  }
  std::sort(out.begin(), out.end(), [](const auto& a, const auto& b) {
    return std::tie(a.created_at, a.id) < std::tie(b.created_at, b.id);
  });
  return out;
}

std::vector<model::Build> Catalog::builds_of(const std::string& template_id) const {
  std::vector<model::Build> out;
  for (const auto& [id, row] : builds_) {
    if (row.template_id == template_id) out.push_back(row);
  }
  return out;
}

Result<void> Catalog::check_files(const std::string& build) const {
  for (const char* name : {"root.erofs", "manifest.json"}) {
    std::string path = fmt::format("{}/{}/{}", templates_dir_, build, name);
    struct stat info{};
    if (::stat(path.c_str(), &info) != 0) {
      return make_error(Code::kInvalid, "build {}: {}", build, Error::from_errno(errno, path).message())
          .with_word("build_missing")
          .with_hint("put the finished build in place first ('atoll template build' does)");
    }
    if (!S_ISREG(info.st_mode))
      return make_error(Code::kInvalid, "build {}: {} is no regular file", build, path);
  }
  return {};
}

Task<Result<model::Template>> Catalog::register_build(NewBuild request) {
  CO_TRY_VOID(check_files(request.build.id));
  if (builds_.count(request.build.id)) {
    co_return make_error(Code::kExists, "build {} is registered already; builds are immutable",
                         request.build.id);
  }
  model::Template row;
  for (const auto& [id, known] : templates_) {
    if (known.alias == request.name.alias && known.name_space == request.name.name_space) row = known;
  }
  if (row.id.empty()) {
    if (templates_.size() >= kMaxTemplates) {
      co_return make_error(Code::kExhausted, "there are {} templates already", templates_.size())
          .with_word("quota");
    }
    row.id = random_base36(20);
    row.tenant = request.tenant;
    row.name_space = request.name.name_space;
    row.alias = request.name.alias;
    row.created_at = clock_.now();
  } else if (row.tenant != request.tenant) {
    co_return make_error(Code::kExists, "a template named '{}' exists already", request.name.alias);
  }
  if (request.is_public) row.is_public = *request.is_public;
  if (request.pool_size) row.pool_size = *request.pool_size;
  if (request.isolation.standard) row.isolation.standard = request.isolation.standard;
  if (request.isolation.minimum) row.isolation.minimum = request.isolation.minimum;
  row.updated_at = clock_.now();
  row.tags[request.name.tag] = request.build.id;
  if (row.tags.size() > kMaxTags) {
    co_return make_error(Code::kExhausted, "template '{}' has {} tags already", row.alias, kMaxTags)
        .with_word("quota");
  }
  request.build.template_id = row.id;
  request.build.created_at = row.updated_at;
  CO_TRY_VOID(co_await publish(row, request.build));
  changed_();
  co_return row;
}

// Memory first, so that two registrations at the same time do not take each other's tags away.
Task<Result<void>> Catalog::publish(model::Template row, model::Build build) {
  auto before =
      templates_.find(row.id) == templates_.end() ? std::nullopt : std::optional(templates_[row.id]);
  templates_[row.id] = row;
  builds_[build.id] = build;
  auto job = [row, build](store::Connection& db) -> Result<void> {
    // Template, build, tags: each refers to the one before it.
    model::Template without_tags = row;
    without_tags.tags.clear();
    TRY_VOID(store::save_template(db, without_tags));
    TRY_VOID(store::insert_build(db, build));
    return store::save_template(db, row);
  };
  auto saved = co_await db_.run(std::move(job));
  if (saved) co_return saved;
  builds_.erase(build.id);
  if (before) {
    templates_[row.id] = *before;
  } else {
    templates_.erase(row.id);
  }
  co_return saved;
}

Task<Result<model::Template>> Catalog::set_isolation(std::string tenant, std::string name_or_id,
                                                     model::IsolationRule isolation) {
  const model::Template* found = find(tenant, name_or_id);
  if (!found || found->tenant != tenant) co_return unknown_template(name_or_id);
  // Memory first, as in publish().
  model::IsolationRule before = found->isolation;
  model::Template& known = templates_[found->id];
  known.isolation = isolation;
  known.updated_at = clock_.now();
  model::Template row = known;
  auto job = [row](store::Connection& db) { return store::save_template(db, row); };
  auto saved = co_await db_.run(std::move(job));
  auto now = templates_.find(row.id);  // it may have been removed or changed meanwhile
  if (!saved && now != templates_.end() && now->second.isolation == isolation) now->second.isolation = before;
  changed_();
  CO_TRY_VOID(std::move(saved));
  co_return row;
}

Task<Result<model::Template>> Catalog::remove(std::string tenant, std::string name_or_id) {
  const model::Template* found = find(tenant, name_or_id);
  if (!found || found->tenant != tenant) co_return unknown_template(name_or_id);
  model::Template row = *found;
  auto job = [id = row.id](store::Connection& db) { return store::delete_template(db, id); };
  CO_TRY_VOID(co_await db_.run(std::move(job)));
  templates_.erase(row.id);
  std::erase_if(builds_, [&](const auto& entry) { return entry.second.template_id == row.id; });
  changed_();
  co_return row;
}

void Catalog::count_spawn(const std::string& template_id, WallTime at) {
  auto found = templates_.find(template_id);
  if (found == templates_.end()) return;
  found->second.spawn_count += 1;
  found->second.last_spawned_at = at;
}

}  // namespace atl::control

// SPDX-License-Identifier: Apache-2.0
#include "control/catalog.h"

#include <fmt/ranges.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>

#include "base/random.h"
#include "model/known_templates.h"
#include "store/templates.h"

namespace atl::control {
namespace {

Error no_such_template(std::string_view name) {
  return make_error(Code::kNotFound, "template '{}' not found", name)
      .with_word("template_not_found")
      .with_hint("'atoll template list' shows what there is; 'atoll up' builds 'base' at its first start");
}

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
  return no_such_template(name);
}

// What of a build is not as it was registered, in words; empty: nothing.
std::string differences(const model::Build& known, const model::Build& asked) {
  const model::Limits &was = known.limits, &now = asked.limits;
  std::vector<std::string_view> out;
  if (asked.user != known.user) out.emplace_back("user");
  if (asked.workdir != known.workdir) out.emplace_back("directory");
  if (asked.envs != known.envs) out.emplace_back("environment");
  if (now.memory_bytes != was.memory_bytes) out.emplace_back("memory");
  if (now.disk_bytes != was.disk_bytes) out.emplace_back("disk");
  if (now.cpu_millis != was.cpu_millis) out.emplace_back("CPU");
  if (now.processes != was.processes) out.emplace_back("number of processes");
  if (now.open_files != was.open_files) out.emplace_back("number of open files");
  if (asked.idle_timeout != known.idle_timeout) out.emplace_back("idle timeout");
  return fmt::format("{}", fmt::join(out, ", "));
}

Error name_taken(std::string_view name) {
  return make_error(Code::kExists, "a template named '{}' exists already", name).with_word("template_exists");
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

const model::Template* Catalog::named(const model::TemplateRef& name) const {
  for (const auto& [id, row] : templates_) {
    if (row.alias == name.alias && row.name_space == name.name_space) return &row;
  }
  return nullptr;
}

// Where the name is taken, by one without this tag or by somebody else's, nothing that is built could get it.
Error Catalog::absent(std::string_view reference) const {
  auto name = model::parse_template_ref(reference);
  if (name.ok() && named(*name) != nullptr) return no_such_template(reference);
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
    model::TemplateRef name;
    name.alias = build.name;
    return named(name) != nullptr;
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
  model::Template row;
  if (const model::Template* known = named(request.name)) row = *known;
  if (!row.id.empty() && !request.replace) co_return name_taken(row.alias);
  const model::Build* known = build(request.build.id);
  if (known) CO_TRY_VOID(check_known(*known, request));
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
    co_return name_taken(request.name.alias);
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
  std::optional<model::Build> added;
  if (!known) {
    added = std::move(request.build);
    added->template_id = row.id;
    added->created_at = row.updated_at;
  }
  CO_TRY_VOID(co_await publish(row, std::move(added)));
  changed_();
  co_return row;
}

Result<void> Catalog::check_known(const model::Build& known, const NewBuild& request) const {
  auto owner = templates_.find(known.template_id);
  bool same = owner != templates_.end() && owner->second.alias == request.name.alias &&
              owner->second.name_space == request.name.name_space;
  if (!same) {
    return make_error(Code::kExists, "build {} is registered already, with another template", known.id)
        .with_word("build_registered");
  }
  std::string differ = differences(known, request.build);
  if (differ.empty()) return success();
  return make_error(Code::kExists,
                    "build {} is registered already, and builds are immutable; it has another {}", known.id,
                    differ)
      .with_word("build_registered")
      .with_hint("leave that out, or remove the template first: sandboxes that run go on");
}

// Memory first, so that two registrations at the same time do not take each other's tags away.
Task<Result<void>> Catalog::publish(model::Template row, std::optional<model::Build> build) {
  auto before =
      templates_.find(row.id) == templates_.end() ? std::nullopt : std::optional(templates_[row.id]);
  templates_[row.id] = row;
  if (build) builds_[build->id] = *build;
  auto job = [row, build](store::Connection& db) -> Result<void> {
    // Template, build, tags: each refers to the one before it.
    model::Template without_tags = row;
    without_tags.tags.clear();
    TRY_VOID(store::save_template(db, without_tags));
    if (build) TRY_VOID(store::insert_build(db, *build));
    return store::save_template(db, row);
  };
  auto saved = co_await db_.run(std::move(job));
  if (saved) co_return saved;
  if (build) builds_.erase(build->id);
  if (before) {
    templates_[row.id] = *before;
  } else {
    templates_.erase(row.id);
  }
  co_return saved;
}

Task<Result<model::Template>> Catalog::change(std::string tenant, std::string name_or_id, Settings settings) {
  const model::Template* found = find(tenant, name_or_id);
  if (!found || found->tenant != tenant) co_return unknown_template(name_or_id);
  // Memory first, as in publish().
  Settings before = settings_of(*found);
  model::Template& known = templates_[found->id];
  known.isolation = settings.isolation;
  known.pool_size = settings.pool_size;
  known.updated_at = clock_.now();
  model::Template row = known;
  auto job = [row](store::Connection& db) { return store::save_template(db, row); };
  auto saved = co_await db_.run(std::move(job));
  auto now = templates_.find(row.id);  // it may have been removed or changed meanwhile
  if (!saved && now != templates_.end() && settings_of(now->second) == settings) {
    now->second.isolation = before.isolation;
    now->second.pool_size = before.pool_size;
  }
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

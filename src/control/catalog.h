// SPDX-License-Identifier: Apache-2.0
//
// Catalog: templates and their builds, in memory and in the store. The files of a build are put in place by
// the builder, under <templates>/<build>/; the catalog only checks that they are there. Use from the control
// loop.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <vector>

#include "control/first_use.h"
#include "model/record.h"
#include "store/database.h"

namespace atl::control {

using async::Task;

struct Resolved {
  model::Template base;
  model::Build build;
  std::string snapshot;  // the disk starts as a copy of this one; empty: a fresh disk
  model::Demand demand;  // what was asked of the isolation, and the tier that is given for it
  model::Tier tier = model::Tier::kContainer;
  // With the memory of `snapshot`: the token that its guest daemon knows.
  std::optional<model::Key32> memory_token = std::nullopt;
};

class Catalog {
 public:
  Catalog(store::Database& db, Clock& clock, std::string templates_dir)
      : db_(db), clock_(clock), templates_dir_(std::move(templates_dir)) {}
  Result<void> load();  // blocking, once at start
  // From now on resolve() asks for the build of templates that Atoll knows and does not have.
  void build_at_first_use(FirstUse first_use) { first_use_ = std::move(first_use); }
  // Builds that were asked for and have not succeeded.
  std::vector<FirstUse::Build> missing_builds() const;
  // Called after each change of templates or tags; the pool follows it.
  void on_change(std::function<void()> call) { changed_ = std::move(call); }

  // By name, name:tag or template id, for a sandbox. kNotFound for what `tenant` may not use, the same as for
  // what does not exist; kUnavailable for what is being built because of this.
  Result<Resolved> resolve(const std::string& tenant, std::string_view reference) const;
  const model::Template* find(const std::string& tenant, std::string_view name_or_id) const;
  const model::Build* build(const std::string& id) const;
  std::vector<model::Template> list(const std::string& tenant) const;  // usable by the tenant, oldest first
  std::vector<model::Build> builds_of(const std::string& template_id) const;
  const std::map<std::string, model::Template>& all() const { return templates_; }

  struct NewBuild {
    std::string tenant;
    model::TemplateRef name;
    bool replace = true;  // where there is a template of this name; otherwise kExists, `template_exists`
    std::optional<bool> is_public;
    std::optional<std::uint32_t> pool_size;
    model::IsolationRule isolation;  // replaces what is given
    model::Build build;
  };
  // Makes the template when its name is new, adds the build, and points the tag to it. kInvalid when the
  // build's files are missing. One that this template has already may be registered again as it is: kExists
  // where anything of it, or the template, is another one.
  Task<Result<model::Template>> register_build(NewBuild request);
  // What may change of a template, whatever builds it has.
  struct Settings {
    model::IsolationRule isolation;
    std::optional<std::uint32_t> pool_size;
    bool operator==(const Settings&) const = default;
  };
  static Settings settings_of(const model::Template& row) { return {row.isolation, row.pool_size}; }
  // For sandboxes that are made from now on. kNotFound unless the template is `tenant`'s.
  Task<Result<model::Template>> change(std::string tenant, std::string name_or_id, Settings settings);
  // Removes a template of `tenant` with all its builds; their files stay, they belong to the builder.
  Task<Result<model::Template>> remove(std::string tenant, std::string name_or_id);
  void count_spawn(const std::string& template_id,
                   WallTime at);  // in memory; the store does so with the create

 private:
  static constexpr std::size_t kMaxTemplates = 10'000;
  static constexpr std::size_t kMaxTags = 100;
  Error absent(std::string_view reference) const;
  // Whoever may use it.
  const model::Template* named(const model::TemplateRef& name) const;
  Result<void> check_known(const model::Build& known, const NewBuild& request) const;
  Task<Result<void>> publish(model::Template row, std::optional<model::Build> build);
  Result<void> check_files(const std::string& build) const;

  store::Database& db_;
  Clock& clock_;
  std::string templates_dir_;
  std::optional<FirstUse> first_use_;
  std::function<void()> changed_ = [] {};
  std::map<std::string, model::Template> templates_;
  std::map<std::string, model::Build> builds_;
};

}  // namespace atl::control

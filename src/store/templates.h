// SPDX-License-Identifier: Apache-2.0
//
// Templates, their builds and tags. Call inside Database::run.
#pragma once

#include <vector>

#include "model/record.h"
#include "store/sqlite.h"

namespace atl::store {

struct StoredTemplates {
  std::vector<model::Template> templates;
  std::vector<model::Build> builds;
};
Result<StoredTemplates> load_templates(Connection& db);
// Writes the template and all its tags. Builds that a tag names must be there.
Result<void> save_template(Connection& db, const model::Template& row);
Result<void> insert_build(Connection& db, const model::Build& build);
Result<void> delete_template(Connection& db, const std::string& id);  // with its builds and tags
Result<void> count_spawn(Connection& db, const std::string& template_id, WallTime at);

}  // namespace atl::store

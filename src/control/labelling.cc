// SPDX-License-Identifier: Apache-2.0
//
// Labels of commands: who sends is told apart by the runner's groups and rules, and named to the gateway and
// the guest daemon, in this order, so that nobody meets a label that it does not know.
#include <algorithm>

#include "async/detach.h"
#include "control/service_impl.h"
#include "model/slot_address.h"

namespace atl::control {
namespace {

Error label_unsupported(std::string_view why, std::string hint) {
  return make_error(Code::kUnsupported, "commands cannot have labels here: {}", why)
      .with_word("label_unsupported")
      .with_hint(std::move(hint));
}

}  // namespace

Result<void> SandboxService::require_labels(model::Tier tier, std::size_t count, bool secured) const {
  if (count > model::kMaxLabels) {
    return make_error(Code::kExhausted, "a sandbox has at most {} labels", model::kMaxLabels)
        .with_word("quota")
        .with_hint("labels are for kinds of commands, not for single ones");
  }
  if (!secured) {
    return label_unsupported("the sandbox has no access token, so anybody may start commands in it",
                             "create it with secure: true");
  }
  if (!options_.connect_gateway)
    return label_unsupported("the gateway does not run", "start Atoll with it (atoll up --gateway)");
  if (tier != model::Tier::kContainer) {
    return label_unsupported(fmt::format("the sandbox's isolation is '{}'", model::tier_name(tier)),
                             "ask for isolation 'container': of the others this host sees one sender only");
  }
  TRY_VOID(require_runner());
  if (model::works(runner_.hello().features, model::Feature::kProcessLabels)) return success();
  return label_unsupported("this host lacks process_labels",
                           "'atoll doctor' shows what it lacks and what can be done");
}

Task<Result<void>> SandboxService::make_labels(LivePtr live, std::vector<std::string> labels) {
  if (labels.empty()) co_return success();
  CO_TRY_VOID(require_labels(live->row.tier, labels.size(), !live->row.access_token.empty()));
  co_return co_await runner_.labels(live->row.id, live->row.generation, labels.size());
}

// One that wakes where labels have become impossible goes on without: its guest daemon refuses commands that
// ask for one.
Task<Result<void>> SandboxService::make_labels_again(LivePtr live) {
  auto made = co_await make_labels(live, live->row.labels);
  if (made.ok() || made.error().word() != "label_unsupported") co_return made;
  log::warn("a sandbox wakes without its labels", {{"id", live->row.id}, {"why", made.error().message()}});
  co_return success();
}

Task<Result<SandboxView>> SandboxService::add_labels(std::string tenant, std::string id,
                                                     std::vector<std::string> labels) {
  auto task = add_labels_now(std::move(tenant), std::move(id), std::move(labels));
  co_return co_await async::finish_in(scope_, "labels", std::move(task));
}

// A crash in between leaves names that are not on record, whose numbers the next ones get: nothing was
// started with them, since the guest daemon hears of a label last.
Task<Result<SandboxView>> SandboxService::add_labels_now(std::string tenant, std::string id,
                                                         std::vector<std::string> labels) {
  CO_TRY(LivePtr live, find_running(tenant, id));
  while (live->labelling && !live->ending) co_await live->changed.wait();
  CO_TRY(live, find_running(tenant, id));
  std::vector<std::string> all = live->row.labels;
  for (std::string& label : labels) {
    if (std::find(all.begin(), all.end(), label) == all.end()) all.push_back(std::move(label));
  }
  if (all == live->row.labels && live->labels_told) co_return SandboxView(live, &live->row);
  struct Labelling {
    explicit Labelling(Live& l) : live(l) { live.labelling = true; }
    ~Labelling() {
      live.labelling = false;
      live.changed.notify_all();
    }
    Live& live;
  } labelling(*live);
  CO_TRY_VOID(co_await make_labels(live, all));
  EgressFacts facts = facts_for_gateway(live->row);
  facts.labels = all;
  CO_TRY_VOID(co_await egress_.make_known(std::move(facts)));
  CO_TRY(live, find_running(tenant, id));
  bool more = all != live->row.labels;
  live->row.labels = std::move(all);
  live->labels_told = false;
  ++live->version;
  egress_.changed(facts_for_gateway(live->row));  // meanwhile it may have been told the old ones again
  Step step;
  if (more) step.event = "sandbox.labels";
  step.message = "labels of commands added";
  CO_TRY_VOID(co_await save(live, std::move(step)));
  CO_TRY(live, find_running(tenant, id));
  CO_TRY_VOID(co_await live->guest->init(identity_of(live->row)));
  live->guest->close();
  live->labels_told = true;
  co_return SandboxView(live, &live->row);
}

}  // namespace atl::control

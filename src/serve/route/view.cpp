#include "serve/page/page.h"
#include "serve/route/route.h"
#include "serve/view/session_board.h"

namespace deltasane::serve {
void show_page(Service&, Call& call) {
  const Page& page = page_of_sessions();
  call.exchange->reply({200,
                        "text/html; charset=utf-8",
                        page.html,
                        {{"Content-Security-Policy", page.policy},
                         {"Referrer-Policy", "no-referrer"}}});
}

void watch_sessions(Service& service, Call& call) {
  Viewer viewer;
  viewer.owner = call.owner;
  viewer.watched = query_values(call.request.query, "watch");
  for (const std::string& head : query_values(call.request.query, "head")) {
    viewer.head = number_in<int64_t>(head);
    if (!viewer.head) refuse_field("head", "expected the number of a head");
  }
  viewer.last_frame = number_in<uint64_t>(call.request.header("last-event-id")).value_or(0);
  service.board.add(std::move(viewer), call.exchange);
}

void show_heads(Service& service, Call& call) {
  const KeptState kept = service.states.find(call.owner, call.ids[0]);
  ThreadPool threads(1);
  const std::vector<probe::HeadStatistics> heads =
      probe::statistics_of(*kept.state, nullptr, threads);
  reply_json(call, {{"id", call.ids[0]},
                    {"object", "state.heads"},
                    {"position", kept.state->position},
                    {"norm", probe::whole_norm(heads)},
                    {"sane", to_string(service.model.sane())},
                    {"heads", heads_json(kept.state->layout(), heads)}});
}

}  // namespace deltasane::serve

// SPDX-License-Identifier: MIT
// Attentions of attentions.h as plain C functions, for peers/cells_users.py. Each returns null, or an error message that lives
// until the next call.
#include "peers/tensor.h"
#include "peers_alibi.h"
#include "peers_causal.h"
#include "peers_causal_alibi.h"
#include "peers_documents.h"
#include "peers_softcap.h"
#include "peers_window.h"
#include <string>

namespace {

struct Users {
    explicit Users(int threads) : context({.threads = threads}) {}
    attune::Context context;
    std::string message;
};

const char *answer(Users &u, const attune::Status &status) {
    u.message = status.message();
    return status.ok() ? nullptr : u.message.c_str();
}

}  // namespace

extern "C" {

Users *attune_users_open(int threads) { return new Users(threads); }

// buffer and number: the capture, for attentions that have one.
const char *attune_users_forward(Users *u, const char *name, const PeersTensor *query, const PeersTensor *key,
                                 const PeersTensor *value, const PeersTensor *out, const PeersTensor *buffer, double number) {
    using bench::view;
    attune::Context &c = u->context;
    const attune::ConstView q = view(*query), k = view(*key), v = view(*value), captured = view(*buffer);
    const attune::View o = bench::output(*out);
    const std::string_view which = name;
    if (which == "alibi") return answer(*u, peers_alibi::forward(c, q, k, v, o, {.slopes = captured}));
    if (which == "softcap") return answer(*u, peers_softcap::forward(c, q, k, v, o, {.cap = number}));
    if (which == "causal") return answer(*u, peers_causal::forward(c, q, k, v, o));
    if (which == "causal_alibi") return answer(*u, peers_causal_alibi::forward(c, q, k, v, o, {.slopes = captured}));
    if (which == "window")
        return answer(*u, peers_window::forward(c, q, k, v, o, {.width = static_cast<std::int32_t>(number)}));
    if (which == "documents") return answer(*u, peers_documents::forward(c, q, k, v, o, {.document = captured}));
    return "there is no such attention";
}
}

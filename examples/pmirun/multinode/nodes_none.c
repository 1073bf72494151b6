/* SPDX-License-Identifier: BSD-3-Clause */
/* Replaces the rest of multinode/ in builds without libsodium: no pmirun becomes a head or an agent
 * there, so only the first two functions are called. */
#include "../local/role.h"
#include "../local/util.h"

static void refuse_nodes(void) __attribute__((noreturn));

static void refuse_nodes(void)
{
    die(STATUS_USAGE,
        "this pmirun runs jobs on one node only, since it was built without libsodium: "
        "install libsodium-dev and pkg-config, and build it again");
}

void head_set_up(struct pmirun *pr)
{
    refuse_nodes();
}

void agent_set_up(struct pmirun *pr, char **args)
{
    refuse_nodes();
}

void nodes_progress(struct pmirun *pr)
{
}

void nodes_flush(struct pmirun *pr)
{
}

void nodes_free_closed(struct pmirun *pr)
{
}

bool nodes_may_end(struct pmirun *pr)
{
    return false;
}

bool nodes_ended(struct pmirun *pr)
{
    return false;
}

void nodes_stop(struct pmirun *pr)
{
}

const char *agent_host_name(const struct pmirun *pr)
{
    return "";
}

uint32_t agent_node(const struct pmirun *pr)
{
    return 0;
}

bool agent_report_text(struct pmirun *pr, const char *text, size_t n)
{
    return false;
}

void agent_report_started(struct pmirun *pr, const struct rank *r)
{
}

void agent_report_state(struct pmirun *pr, const struct rank *r, uint32_t state)
{
}

void agent_report_aborted(struct pmirun *pr, const struct rank *r, int32_t code, const char *text)
{
}

void agent_report_exited(struct pmirun *pr, const struct rank *r, const siginfo_t *si)
{
}

void agent_report_launched(struct pmirun *pr, const struct job *job)
{
}

void agent_report_spawn_failed(struct pmirun *pr, const struct job *job, int err)
{
}

bool agent_report_output(struct pmirun *pr, const struct stream *st, const char *p, size_t n)
{
    return false;
}

void agent_report_input(struct pmirun *pr, uint32_t n)
{
}

void agent_report_fatal(struct pmirun *pr, int status)
{
}

void agent_report_failure(struct pmirun *pr, int status)
{
}

void agent_signalled(struct pmirun *pr, int sig)
{
}

void agent_spawn(struct pmirun *pr, const struct rank *by, const struct pmiwire_spawn *req,
                 uint64_t token)
{
}

void agent_report_stuck(struct pmirun *pr, const struct job *job, uint32_t rank, uint32_t coll,
                        uint32_t why)
{
}

void agent_report_mpi(struct pmirun *pr, const struct job *job)
{
}

int agent_ask_name(void *ctx, const struct pmiwire_peer *who, uint32_t what,
                   struct pmiwire_str service, struct pmiwire_str port, uint64_t token)
{
    return 0;
}

int agent_send_frame(struct pmirun *pr, uint32_t node, uint32_t job, const struct iovec *iov,
                     uint32_t n_iov)
{
    return 0;
}

void agent_report_lost(struct pmirun *pr, uint32_t node, const char *why)
{
}

int agent_send_pmix(struct pmirun *pr, uint32_t node, uint32_t job, const struct iovec *iov,
                    uint32_t n_iov)
{
    return 0;
}

void agent_request_name(struct pmirun *pr, uint64_t token, uint32_t owner, uint32_t what,
                        struct pmiwire_str service, struct pmiwire_str port)
{
}

const char *head_node_name(const struct pmirun *pr, uint32_t node)
{
    return "";
}

bool head_place_ranks(const struct pmirun *pr, uint32_t n, const char *hosts, uint32_t *node_of)
{
    return false;
}

void head_launch_job(struct pmirun *pr, struct job *job, const struct msg_in *preputs)
{
}

void head_signal_ranks(struct pmirun *pr, int sig)
{
}

void head_stop_launch(struct pmirun *pr)
{
}

void head_abandon_job(struct pmirun *pr, const struct job *job)
{
}

void head_announce_end(struct pmirun *pr, const struct job *job)
{
}

void head_answer_spawn(struct pmirun *pr, const struct job *job, int err)
{
}

void head_give_room(struct pmirun *pr, bool is_err)
{
}

void head_reap_starter(struct pmirun *pr, const siginfo_t *si)
{
}

void head_stats(const struct pmirun *pr, struct pmiwire_stats_server *s)
{
}

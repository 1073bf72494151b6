/* SPDX-License-Identifier: BSD-3-Clause */
/* Replaces the rest of multinode/ in builds without libsodium: no pmirun becomes a head or an agent
 * there, so no function with a head or an agent is called. */
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

void nodes_progress(const struct jobs *jobs)
{
}

void nodes_flush(const struct jobs *jobs)
{
}

void nodes_free_closed(const struct jobs *jobs)
{
}

bool nodes_may_end(const struct jobs *jobs)
{
    return true;
}

bool nodes_ended(const struct jobs *jobs)
{
    return true;
}

void nodes_stop(const struct jobs *jobs)
{
}

uint32_t agent_node(const struct agent *a)
{
    return 0;
}

bool agent_report_text(struct agent *a, const char *text, size_t n)
{
    return false;
}

void agent_report_aborted(struct agent *a, const struct rank *r, int32_t code, const char *text)
{
}

void agent_report_exited(struct agent *a, const struct rank *r, const siginfo_t *si)
{
}

void agent_report_spawn_failed(struct agent *a, const struct job *job, int err)
{
}

bool agent_report_output(struct agent *a, const struct stream *st, const char *p, size_t n)
{
    return false;
}

void agent_signalled(struct agent *a, int sig)
{
}

void agent_spawn(struct agent *a, const struct rank *by, const struct pmiwire_spawn *req,
                 uint64_t token)
{
}

void agent_report_stuck(struct agent *a, uint32_t job, uint32_t rank, uint32_t coll, uint32_t why)
{
}

void agent_report_mpi(struct agent *a, const struct job *job)
{
}

int agent_send_frame(struct agent *a, bool is_pmix, uint32_t node, uint32_t job,
                     const struct iovec *iov, uint32_t n_iov)
{
    return 0;
}

void agent_report_lost(struct agent *a, uint32_t node, const char *why)
{
}

void agent_request_name(struct agent *a, uint64_t token, uint32_t owner, uint32_t what,
                        struct pmiwire_str service, struct pmiwire_str port)
{
}

const char *head_node_name(const struct head *h, uint32_t node)
{
    return "";
}

bool head_place_ranks(const struct head *h, uint32_t n, const char *hosts, uint32_t *node_of)
{
    return false;
}

void head_launch_job(struct head *h, struct job *job, const struct msg_in *preputs)
{
}

void head_answer_spawn(struct head *h, const struct job *job, int err)
{
}

void head_give_room(struct head *h, bool is_err)
{
}

void head_reap_starter(struct head *h, const siginfo_t *si)
{
}

void head_stats(const struct head *h, struct pmiwire_stats_server *s)
{
}

void head_drop_names(struct head *h, const struct job *job)
{
}

void agent_report(struct agent *a, enum message what, uint32_t number)
{
}

void agent_report_rank(struct agent *a, enum message what, const struct rank *r, uint32_t value)
{
}

void head_order(struct head *h, enum message what, uint32_t number)
{
}

bool head_send_input(struct head *h, const char *p, size_t n)
{
    return false;
}

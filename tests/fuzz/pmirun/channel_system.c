/* SPDX-License-Identifier: BSD-3-Clause */
/* fuzz_pmirun_channel: stand-ins for the system, and for pmirun's files that own a socket, a
 * process or a descriptor. */
#define _GNU_SOURCE
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../../../examples/pmirun/local/launch.h"
#include "../../../examples/pmirun/local/bind.h"
#include "../../../examples/pmirun/local/folder.h"
#include "../../../examples/pmirun/local/program.h"
#include "../../../examples/pmirun/local/mpi_detect.h"
#include "channel_world.h"

/* ---- the system ---- */

void exit(int status)
{
    abort();
}

int kill(pid_t pid, int sig)
{
    pid = pid < 0 ? -pid : pid;
    check(pid >= FIRST_PID && sig > 0 && sig <= 64);
    return 0;
}

int waitid(idtype_t type, id_t id, siginfo_t *si, int options)
{
    (void)type, (void)id, (void)si, (void)options;
    errno = ECHILD;
    return -1;
}

int chdir(const char *path)
{
    errno = ENOENT;
    return path[0] == '!' ? -1 : 0;
}

int setenv(const char *name, const char *value, int replace)
{
    check(name[0] && !strchr(name, '=') && strlen(value) < SIZE_MAX && replace);
    return 0;
}

/* Random numbers, ours and libsodium's: the same in each run. */
static uint32_t random_next(void)
{
    static uint32_t seed = 1;

    return seed = seed * 1103515245u + 12345u;
}

static void random_fill(void *p, size_t n)
{
    for (size_t i = 0; i < n; i++)
        ((uint8_t *)p)[i] = (uint8_t)(random_next() >> 16);
}

static const char *random_name(void)
{
    return "fuzz";
}

struct randombytes_implementation same_numbers = {
    .implementation_name = random_name, .random = random_next, .buf = random_fill};

ssize_t getrandom(void *p, size_t n, unsigned flags)
{
    random_fill(p, n);
    return (ssize_t)n;
}

/* ---- one node's files ---- */

struct loop loop;
struct source *stdin_copy;

int loop_open(struct source *src, source_fn *event, void *of, int fd, uint32_t events)
{
    *src = (struct source){event, of, fd, events};
    return 0;
}

int loop_add(struct source *src, uint32_t events)
{
    src->events = events;
    return 0;
}

void loop_del(struct source *src)
{
    src->events = 0;
}

void loop_close(struct source *src)
{
    if (src == stdin_copy && src->fd >= 0) /* a copy of stdin: the one that is real */
        close(src->fd);
    src->fd = -1;
}

void loop_init(struct pmirun *pr)
{
    abort();
}

bool folder_remove(const char *key)
{
    abort();
}

const char *folder_get(struct folders *f, enum folder_place place)
{
    abort();
}

void topology_use(const struct topology *t, bool use)
{
    abort();
}

const char *mpi_detect_name(const struct job *job)
{
    return job->mpi == MPI_PMIX ? "pmix" : "pmi";
}

void mpi_detect_report(const struct job *job)
{
}

void mpi_detect_ended(struct job *job)
{
}

/* What a program needs is not looked for; a job may be told that it goes by PMIx. */
int mpi_detect_choose(struct job *job, char **why)
{
    if (job->mpi == MPI_AUTO)
        job->mpi = MPI_PMI;
    job->mpi_reason = xprintf("fuzz");
    agent_report(job->jobs->agent, MSG_CHOSE,
                 &(struct report){.job = job->number, .value = job->mpi, .text = job->mpi_reason});
    return 0;
}

void bind_free(struct binding *b)
{
    free(b);
}

void launch_init(struct jobs *jobs, struct output *output, struct input *input,
                 const struct signals *signals)
{
    abort();
}

int program_resolve(struct app *app)
{
    free(app->path);
    app->path = xprintf("%s", app->argv[0]);
    return app->path[0] == '!' ? ENOENT : 0;
}

int program_find(struct app *app, char **why)
{
    int err = program_resolve(app);

    if (err)
        *why = xprintf("cannot start %s", app->argv[0]);
    return err ? STATUS_NOTFOUND : 0;
}

char *launch_check_limits(struct launcher *l, uint64_t n_more, uint64_t n_fds)
{
    return n_more > 40 ? xprintf("too many processes") : NULL;
}

void launch_land_all(struct launcher *l)
{
}

void launch_settle(struct launcher *l)
{
}

void launch_drop(struct launcher *l, struct job *job)
{
}

int port_init(struct port *port)
{
    struct options *opt = (struct options *)(uintptr_t)port->pmi->jobs->opt;

    opt->use_port = false; /* or shared memory would have names, which a crash leaves behind */
    return 0;
}

bool port_may_complain(struct port *port)
{
    return true;
}

int port_identify(void *ctx, struct pmiwire_conn *conn, void *cookie, int32_t pmiid, uint32_t *job,
                  int32_t *rank)
{
    (void)ctx, (void)conn, (void)cookie, (void)pmiid, (void)job, (void)rank;
    return PMIWIRE_ENOENT;
}

/* ---- connections ---- */

void net_close(struct netconn *nc)
{
    nc->dead = true;
}

/* What an agent says to others goes nowhere: their links come to us. */
static struct netconn nowhere = {.dialled = true};

int net_send(struct netconn *nc, const void *p, size_t n)
{
    if (nc == &nowhere)
        return 0;
    return nc->dead ? -EPIPE : channel_send(&nc->ch, p, n);
}

int net_listen(struct net *net, const char *address, uint16_t *port)
{
    *port = 4711;
    return 0;
}

struct netconn *net_dial(struct net *net, const char *address, uint16_t port, uint32_t peer,
                         bool hasty, int *err)
{
    return &nowhere;
}

bool net_full(struct netconn *nc)
{
    return false;
}

bool net_shaking(const struct net *net)
{
    return false;
}

uint64_t net_timeout(const struct net *net)
{
    return NS_PER_S;
}

void net_address(const struct netconn *nc, bool local, char *out, size_t n)
{
    (void)nc, (void)local;
    snprintf(out, n, "192.0.2.1");
}

char *net_own_addresses(void)
{
    return xprintf("192.0.2.1");
}

void net_init(struct net *net, const struct options *opt, const struct net_ops *ops, void *of)
{
    net->opt = opt;
    net->ops = ops;
    net->of = of;
}

void net_flush(struct net *net)
{
}

void net_free_closed(struct net *net)
{
}

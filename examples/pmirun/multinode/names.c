/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Published names on several nodes. The head holds them; an agent tells it of those that its ranks
 * publish or take back, and answers them at once. So that may be on its way when somebody on
 * another node looks the name up who knows of it, through MPI: before the head says anything, it
 * asks every agent for a sign, which comes behind what that has said before.
 *
 * An agent remembers the names of its own ranks: it knows one that they have published already, and
 * only those can they take back. Of a name that two nodes publish, the first that the head hears of
 * counts.
 */
#include "nodes.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define MAX_NAMES 65536u

struct name {
    struct name *next;
    uint32_t job;
    struct pmiwire_str service, port; /* in one allocation with this */
};

struct lookup {
    struct lookup *next;
    uint32_t number, node, n_signs; /* that are still to come */
    uint64_t token;
    char *service;
};

void names_free(struct names *names)
{
    while (names->list) {
        struct name *n = names->list;

        names->list = n->next;
        free(n);
    }
    while (names->lookups) {
        struct lookup *l = names->lookups;

        names->lookups = l->next;
        free(l->service);
        free(l);
    }
}

static struct name **find(struct names *names, struct pmiwire_str service)
{
    struct name **p = &names->list;

    while (*p && ((*p)->service.len != service.len ||
                  memcmp((*p)->service.ptr, service.ptr, service.len) != 0))
        p = &(*p)->next;
    return p;
}

static int add(struct names *names, uint32_t job, struct pmiwire_str service,
               struct pmiwire_str port)
{
    struct name *n;
    char *text;

    if (*find(names, service))
        return PMIWIRE_EEXIST;
    n = names->n < MAX_NAMES ? malloc(sizeof(*n) + service.len + port.len) : NULL;
    if (!n)
        return -ENOMEM;
    text = (char *)(n + 1);
    memcpy(text, service.ptr, service.len);
    if (port.len)
        memcpy(text + service.len, port.ptr, port.len);
    *n = (struct name){names->list, job, {text, service.len}, {text + service.len, port.len}};
    names->list = n;
    names->n++;
    return 0;
}

static int drop(struct names *names, uint32_t job, struct pmiwire_str service)
{
    struct name **p = find(names, service), *n = *p;

    if (!n || n->job != job)
        return PMIWIRE_ENOENT;
    *p = n->next;
    free(n);
    names->n--;
    return 0;
}

void names_job_ended(struct pmirun *pr, const struct job *job)
{
    struct name **p = &pr->nodes->names.list;

    while (*p) {
        struct name *n = *p;

        if (n->job != job->number) {
            p = &n->next;
            continue;
        }
        *p = n->next;
        free(n);
        pr->nodes->names.n--;
    }
}

/* ---- an agent ---- */

static void tell(struct pmirun *pr, enum message what, uint32_t job, struct pmiwire_str service,
                 struct pmiwire_str port)
{
    struct msg *m = agent_msg(pr, what);

    msg_u32(m, job);
    msg_text(m, service.ptr, service.len);
    msg_text(m, port.ptr, port.len);
    agent_tell(pr);
}

int names_on_publish(void *ctx, const struct pmiwire_peer *who, struct pmiwire_str service,
                     struct pmiwire_str port)
{
    struct pmirun *pr = ctx;
    const struct job *job = who->job_cookie;
    int rc = add(&pr->nodes->names, job->number, service, (struct pmiwire_str){0});

    if (rc == 0)
        tell(pr, MSG_PUBLISH, job->number, service, port);
    return rc;
}

int names_on_unpublish(void *ctx, const struct pmiwire_peer *who, struct pmiwire_str service)
{
    struct pmirun *pr = ctx;
    const struct job *job = who->job_cookie;
    int rc = drop(&pr->nodes->names, job->number, service);

    if (rc == 0)
        tell(pr, MSG_UNPUBLISH, job->number, service, (struct pmiwire_str){0});
    return rc;
}

int names_on_lookup(void *ctx, const struct pmiwire_peer *who, struct pmiwire_str service,
                    uint64_t token, struct pmiwire_str *port)
{
    struct pmirun *pr = ctx;
    struct msg *m = agent_msg(pr, MSG_LOOKUP);

    (void)who, (void)port;
    msg_u64(m, token);
    msg_text(m, service.ptr, service.len);
    agent_tell(pr);
    return PMIWIRE_PENDING;
}

/* ---- the head ---- */

bool names_published(struct pmirun *pr, struct msg_in *in, bool taken_back)
{
    uint32_t job = get_u32(in);
    struct pmiwire_str service = get_str(in), port = get_str(in);

    if (in->bad || !job_by_number(pr, job))
        return false;
    if (taken_back)
        drop(&pr->nodes->names, job, service);
    else if (add(&pr->nodes->names, job, service, port) != 0)
        say(pr,
            "a name that job %u publishes is not taken: published on another node before, or too "
            "many",
            job);
    return true;
}

/* What the head knows, to who has asked. */
static void answer(struct pmirun *pr, uint32_t node, uint64_t token, struct pmiwire_str service)
{
    const struct name *n = *find(&pr->nodes->names, service);
    struct msg m = {0};

    msg_begin(&m, MSG_FOUND);
    msg_u64(&m, token);
    msg_u32(&m, (uint32_t)(n ? 0 : PMIWIRE_ENOENT));
    msg_text(&m, n ? n->port.ptr : NULL, n ? n->port.len : 0);
    nodes_tell(pr, &pr->nodes->head.nodes[node], &m);
    msg_free(&m);
}

bool names_asked(struct pmirun *pr, uint32_t node, struct msg_in *in)
{
    uint64_t token = get_u64(in);
    struct pmiwire_str service = get_str(in);
    struct lookup *l;
    struct msg m = {0};

    if (in->bad)
        return false;
    l = xrealloc(NULL, sizeof(*l));
    *l = (struct lookup){pr->nodes->names.lookups,
                         pr->nodes->names.n_lookups++,
                         node,
                         pr->opt.n_nodes,
                         token,
                         xprintf("%.*s", (int)service.len, service.ptr)};
    pr->nodes->names.lookups = l;
    msg_begin(&m, MSG_SIGN);
    msg_u32(&m, l->number);
    nodes_tell_all(pr, &m);
    msg_free(&m);
    return true;
}

bool names_sign(struct pmirun *pr, struct msg_in *in)
{
    struct lookup **p = &pr->nodes->names.lookups, *l;
    uint32_t number = get_u32(in);

    while (*p && (*p)->number != number)
        p = &(*p)->next;
    l = *p;
    if (in->bad || !l)
        return false;
    if (--l->n_signs > 0)
        return true;
    *p = l->next;
    answer(pr, l->node, l->token, pmiwire_strz(l->service));
    free(l->service);
    free(l);
    return true;
}

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Collectives with a member that is stopped (SIGSTOP): timeout_ms ends the calls of the others,
 * wherever they wait for it: for its table at the first access, its flags, or a flush. After
 * SIGCONT the members have lost nothing.
 */
#define _GNU_SOURCE
#include "collectives.h"

enum { N = 3, VICTIM = 2, PUT_BYTES = 1 << 18 };

static int known; /* members have read each other's tables before */

/* The members that run begin something together, so that neither waits long for the other. */
static void start_together(struct self *s, uint32_t channel)
{
    struct asymreg_group *g;

    CHECK_EQ(of_array(s, N - 1, s->me, s->scratch, channel, 60000, &g), 0);
    CHECK_EQ(asymreg_sync(g, NULL), 0);
    asymreg_group_destroy(g);
}

/* Of all members; the victim comes when it has been stopped and continued. */
static void all_fail(struct self *s)
{
    struct asymreg_error err;
    struct asymreg_group *g;
    int rc;

    CHECK_EQ(of_array(s, N, s->me, s->scratch, 1, 700, &g), 0);
    start_together(s, 2);
    rc = asymreg_sync(g, &err);
    CHECK_EQ(rc, ASYMREG_ETIMEDOUT);
    CHECK_EQ(err.member, VICTIM);
    CHECK_EQ(err.pe, PE + VICTIM);
    meet(s); /* who does not progress keeps the other from hearing of it, over UCX */
    asymreg_group_destroy(g);
}

/* Of the members that run: what they put to the victim doesn't arrive, where it takes part in
 * that; otherwise they are as before. */
static void barrier_without_victim(struct self *s, const char *src)
{
    int one_sided = strncmp(transport, "ucx", 3) != 0, rc;
    struct asymreg_error err;
    struct asymreg_group *g;

    CHECK_EQ(asymreg_put_nb(s->w, PE + VICTIM, s->bufs[VICTIM].addr + s->me * PUT_BYTES,
                            ASYMREG_ANY, src, PUT_BYTES),
             0);
    CHECK_EQ(of_array(s, N - 1, s->me, s->scratch, 3, 1500, &g), 0);
    start_together(s, 4);
    rc = asymreg_barrier(g, &err);
    CHECK_EQ(rc, one_sided ? 0 : ASYMREG_ETIMEDOUT);
    CHECK(one_sided || err.member == UINT32_MAX);
    CHECK_EQ(asymreg_sync(g, NULL), 0);
    asymreg_group_destroy(g);
}

static void member(uint32_t me)
{
    struct self self, *s = &self;
    char *src = malloc(PUT_BYTES), byte;

    prctl(PR_SET_PDEATHSIG, SIGKILL);
    alarm(100);
    CHECK(src != NULL);
    memset(src, 'a' + (int)me, PUT_BYTES);
    begin_member(s, me, N);
    CHECK_EQ(of_array(s, N, me, s->scratch, 0, 60000, &s->g), 0);
    if (known) {
        CHECK_EQ(asymreg_sync(s->g, NULL), 0);
        for (uint32_t i = 0; i < N; i++)
            CHECK_EQ(asymreg_get(s->w, PE + i, s->bufs[i].addr, ASYMREG_ANY, &byte, 1), 0);
        meet(s);
    }
    if (me == VICTIM) {
        raise(SIGSTOP);
        s->met += 2; /* what the others did meanwhile */
        __atomic_store_n(&board->killed, 0, __ATOMIC_SEQ_CST);
    } else {
        while (!__atomic_load_n(&board->killed, __ATOMIC_SEQ_CST))
            usleep(1000);
        all_fail(s);
        if (known)
            barrier_without_victim(s, src);
        meet(s);
        while (__atomic_load_n(&board->killed, __ATOMIC_SEQ_CST)) {
            CHECK(asymreg_progress(s->w) >= 0);
            usleep(1000);
        }
    }
    CHECK_EQ(asymreg_sync(s->g, NULL), 0);
    CHECK_EQ(asymreg_barrier(s->g, NULL), 0);
    for (uint32_t from = 0; from < N && me == VICTIM && known; from++)
        for (size_t i = 0; from != VICTIM && i < PUT_BYTES; i++)
            CHECK_EQ(s->buf[from * PUT_BYTES + i], 'a' + (int)from);
    free(src);
    end_member(s);
}

/* Whether a member has ended instead. */
static int wait_for_victim(pid_t victim)
{
    int status;

    return waitpid(victim, &status, WUNTRACED) != victim || !WIFSTOPPED(status);
}

static void stop_one(void)
{
    siginfo_t ended = {.si_pid = 0};
    uint32_t last = known ? 3 : 2; /* their meeting after all that waits for the victim */
    pid_t pids[N];
    int status;

    memset(board, 0, sizeof(*board));
    board->victim = VICTIM;
    fflush(stdout);
    for (uint32_t i = 0; i < N; i++) {
        CHECK((pids[i] = fork()) >= 0);
        if (pids[i] == 0)
            member(i);
    }
    CHECK(!wait_for_victim(pids[VICTIM]));
    __atomic_store_n(&board->killed, 1, __ATOMIC_SEQ_CST);
    while (__atomic_load_n(&board->met[last], __ATOMIC_SEQ_CST) < N - 1 &&
           waitid(P_ALL, 0, &ended, WEXITED | WNOHANG | WNOWAIT) == 0 && ended.si_pid == 0)
        usleep(1000);
    CHECK_EQ(ended.si_pid, 0);
    CHECK(kill(pids[VICTIM], SIGCONT) == 0);
    for (uint32_t i = 0; i < N; i++)
        CHECK(waitpid(pids[i], &status, 0) == pids[i] && WIFEXITED(status) &&
              WEXITSTATUS(status) == 0);
    printf("%s: a member is stopped %s its table is known\n", transport,
           known ? "after" : "before");
}

void stopped_members(void)
{
    for (known = 0; known < 2; known++)
        stop_one();
}

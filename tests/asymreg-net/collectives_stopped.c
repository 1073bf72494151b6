/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Collectives with a member that is stopped (SIGSTOP): timeout_ms ends the others' calls, whether
 * they wait for its table at the first access, for its flags, or in a flush. After SIGCONT no data
 * is lost; or the others forget the member and leave while it is stopped.
 */
#define _GNU_SOURCE
#include "collectives.h"

enum { N = 3, VICTIM = 2, PUT_BYTES = 1 << 18, LIMIT_MS = 4000 };

static int known;   /* members have read each other's tables before */
static int leaving; /* the others don't wait for the victim */

/* A call on a group of this member and the victim, which enters after SIGCONT. */
static void fails(struct self *s)
{
    const struct asymreg_member pair[] = {s->scratches[s->me], s->scratches[VICTIM]};
    struct asymreg_group_opts opts = {.size = sizeof(opts),
                                      .n = 2,
                                      .scratch = s->scratch,
                                      .channel = 1 + s->me,
                                      .timeout_ms = 300,
                                      .members = pair};
    struct asymreg_error err;
    struct asymreg_group *g;

    CHECK_EQ(asymreg_group_create(s->w, &opts, &g, NULL), 0);
    CHECK_EQ(asymreg_sync(g, &err), ASYMREG_ETIMEDOUT);
    CHECK_EQ(err.member, 1);
    CHECK_EQ(err.pe, PE + VICTIM);
    asymreg_group_destroy(g);
}

/* A barrier of the running members. One's put does not arrive at the victim, over transports where
 * the target takes part: its flush lasts until the timeout, and the other member waits. The group
 * remains usable. */
static void flushes(struct self *s, const char *src)
{
    int late = s->me == 0 && strncmp(transport, "ucx", 3) == 0;
    struct asymreg_error err = {.member = 0};
    struct asymreg_group *g;

    if (s->me == 0)
        CHECK_EQ(
            asymreg_put_nb(s->w, PE + VICTIM, s->bufs[VICTIM].addr, ASYMREG_ANY, src, PUT_BYTES),
            0);
    CHECK_EQ(of_array(s, N - 1, s->me, s->scratch, 3, LIMIT_MS, &g), 0);
    meet(s);
    if (s->me == 0)
        usleep(LIMIT_MS * 1000 / 4);
    CHECK_EQ(asymreg_barrier(g, &err), late ? ASYMREG_ETIMEDOUT : 0);
    CHECK(!late || err.member == UINT32_MAX);
    CHECK_EQ(asymreg_sync(g, NULL), 0);
    asymreg_group_destroy(g);
}

/* While the victim is stopped. */
static void leave(struct self *s)
{
    CHECK_EQ(asymreg_forget(s->context, PE + VICTIM), 0);
    close_member(s);
    exit(0);
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
        s->met += known ? 2 : 1; /* the others had done so */
        __atomic_store_n(&board->killed, 0, __ATOMIC_SEQ_CST);
    } else {
        while (!__atomic_load_n(&board->killed, __ATOMIC_SEQ_CST))
            usleep(1000);
        if (known && !leaving)
            flushes(s, src); /* first, while no other operation to the victim is in flight */
        fails(s);
        if (leaving)
            leave(s);
        meet(s);
        while (__atomic_load_n(&board->killed, __ATOMIC_SEQ_CST)) {
            CHECK(asymreg_progress(s->w) >= 0);
            usleep(1000);
        }
    }
    CHECK_EQ(asymreg_sync(s->g, NULL), 0);
    CHECK_EQ(asymreg_barrier(s->g, NULL), 0);
    for (size_t i = 0; me == VICTIM && known && i < PUT_BYTES; i++)
        CHECK_EQ(s->buf[i], 'a');
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
    uint32_t last = known ? 3 : 1; /* they meet after all calls that wait for the victim */
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
    while (!leaving && __atomic_load_n(&board->met[last], __ATOMIC_SEQ_CST) < N - 1 &&
           waitid(P_ALL, 0, &ended, WEXITED | WNOHANG | WNOWAIT) == 0 && ended.si_pid == 0)
        usleep(1000);
    CHECK_EQ(ended.si_pid, 0);
    if (!leaving)
        CHECK(kill(pids[VICTIM], SIGCONT) == 0);
    for (uint32_t i = 0; i < N; i++) {
        int killed = leaving && i == VICTIM;
        CHECK(!killed || kill(pids[i], SIGKILL) == 0);
        CHECK(waitpid(pids[i], &status, 0) == pids[i] &&
              (killed || (WIFEXITED(status) && WEXITSTATUS(status) == 0)));
    }
    printf("%s: a member is stopped %s its table is known%s\n", transport,
           known ? "after" : "before", leaving ? "; the others leave" : "");
}

void stopped_members(void)
{
    for (leaving = 0; leaving < 2; leaving++)
        for (known = 0; known < 2; known++)
            stop_one();
}
